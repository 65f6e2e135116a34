use nearfar_measure::reproduce::{Figure, reproduce};
use nearfar_topology::Profile;
fn main() {
    let profile = Profile::builtin("cxl-blades-4").unwrap();
    let dump = std::env::args().nth(1).is_some();
    for figure in [Figure::Fig4, Figure::Fig5, Figure::Fig7] {
        let start = std::time::Instant::now();
        let r = reproduce(figure.name(), &figure.points(), &profile, |_, _| {}).unwrap();
        println!(
            "{} mape {:.3} in {:.2} s",
            figure.name(),
            r.mape_percent().unwrap(),
            start.elapsed().as_secs_f64()
        );
        if figure == Figure::Fig5 {
            for s in &r.series {
                for p in &s.points {
                    if ["50", "99"].contains(&&*p.x) {
                        println!(
                            "{} {} {} {:.1} {:.1}%",
                            s.name,
                            p.x,
                            p.published,
                            p.modelled,
                            p.error_percent()
                        );
                    }
                }
            }
        }
        if figure == Figure::Fig7 {
            for s in &r.series {
                println!("  {} {:.2}", s.name, s.mape_percent());
            }
        }
        if figure == Figure::Fig4 {
            let mut m = std::collections::BTreeMap::<(String, String), Vec<f64>>::new();
            for p in r.points() {
                let g = |n: &str| {
                    p.columns
                        .iter()
                        .find(|c| c.0 == n)
                        .map(|c| c.1.clone())
                        .unwrap_or_default()
                };
                m.entry((g("op"), g("devices")))
                    .or_default()
                    .push(p.error_percent().abs());
            }
            for (k, v) in m {
                println!("  {k:?} {:.2}", v.iter().sum::<f64>() / v.len() as f64);
            }
        }
        if dump {
            for p in r.points() {
                println!("P {:?} {} {}", p.columns, p.x, p.modelled);
            }
        }
    }
}
