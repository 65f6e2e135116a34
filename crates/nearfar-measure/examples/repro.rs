#![allow(clippy::print_stdout)]
use nearfar_measure::reproduce::*;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let (name, points) = match Figure::ALL.iter().find(|f| f.name() == a[0]) {
        Some(f) => (f.name().to_string(), f.points()),
        None => (a[0].clone(), Points::parse(&a[0], &std::fs::read_to_string(&a[0]).unwrap()).unwrap_or_else(|e| panic!("{e}"))),
    };
    let profile = nearfar_topology::Profile::resolve(a.get(1).map_or("cxl-blades-4", |s| s)).unwrap();
    let t = std::time::Instant::now();
    let r = reproduce(&name, &points, &profile, |_, _| {}).unwrap_or_else(|e| panic!("{e}"));
    for s in &r.series {
        println!("{:50} {:5.1}%", s.name, s.mape_percent());
        println!("   x   {}", s.points.iter().map(|p| format!("{:>7}", p.x)).collect::<String>());
        println!("   pub {}", s.points.iter().map(|p| format!("{:7.1}", p.published)).collect::<String>());
        println!("   mod {}", s.points.iter().map(|p| format!("{:7.1}", p.modelled)).collect::<String>());
    }
    println!("{:?} worst {:?} in {:.1}s", r.mape_percent(), r.worst(), t.elapsed().as_secs_f64());
}
