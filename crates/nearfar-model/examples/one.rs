use nearfar_model::simulation::pattern::{Order, Pattern};
use nearfar_model::simulation::*;
use nearfar_topology::Profile;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let order = if &a[1] == "seq" {
        Order::Sequential
    } else {
        Order::Random
    };
    let access = if &a[2] == "r" {
        Access::Load
    } else {
        Access::Store
    };
    let bytes: u32 = a[3].parse().unwrap();
    let threads: u64 = a[4].parse().unwrap();
    let lines: u64 = a[5].parse().unwrap();
    let machine = Machine::new(&Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    let mut best = f64::MAX;
    for _ in 0..a[6].parse().unwrap() {
        let programs = (0..threads).map(|t| {
            Box::new(Pattern::new(access, order, bytes, 7 << 30, t, threads, 1)) as Box<dyn Program>
        });
        let mut map = AddressMap::new();
        map.add(
            0,
            (7 << 30) >> 12,
            machine.devices(TierName::Far, 4).unwrap(),
        );
        let sim = Simulation::new(&machine, map, programs.collect(), Caches::Streaming).unwrap();
        let s = std::time::Instant::now();
        let o = sim.measure(0, lines);
        best = best.min(s.elapsed().as_secs_f64() * 1e9 / o.lines as f64);
    }
    println!(
        "{} best {:.1} ns/line {:.1} M/s",
        a[1..5].join(" "),
        best,
        1e3 / best
    );
}
