#![allow(clippy::print_stdout)]
use nearfar_model::simulation::*;
use nearfar_model::simulation::pattern::*;
fn main() {
    let m = Machine::new(&nearfar_topology::Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    let mut map = AddressMap::new();
    map.add(0, 7 << 18, vec![1]);
    for bytes in [8, 64] {
    let p = Pattern::new(Access::Load, Order::Sequential, bytes, 7 << 30, 0, 1, 1);
    let o = Simulation::new(&m, map.clone(), vec![Box::new(p)], Caches::Streaming).unwrap().measure(1000, 40000);
    println!("{} {:?} {} {} {}", bytes, o.elapsed_ns, o.load_bytes, o.lines, o.requests());
    }
}
