#![allow(clippy::print_stdout)]
use nearfar_model::simulation::*;
use nearfar_model::simulation::pattern::*;
use std::collections::BTreeMap;
use std::time::Instant;

fn machine(over: &[(String, f64)]) -> Machine {
    let mut m = Machine::new(&nearfar_topology::Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    for (k, v) in over {
        let v = *v;
        let c = &mut m.core;
        match k.as_str() {
            "lfb" => c.fill_buffers = v as u32, "l2q" => c.l2_queue_entries = v as u32,
            "turn" => c.fill_turnaround_ns = v, "commit" => c.store_commit_ns = v, "win" => c.window_lines = v as u32,
            "lt" => c.stream_trigger_lines = v as u32, "dist" => c.streamer_distance_lines = v as u32,
            "hit" => c.l2_hit_ns = v, "acc" => c.access_ns = v, "line" => c.line_ns = v, "tor" => c.request_table_entries = v as u32,
            "lat" => m.tiers[1].1.read_latency_ns = v, "wlat" => m.tiers[1].1.write_latency_ns = v, "r" => m.tiers[1].1.read_service_ns = v,
            "w" => m.tiers[1].1.write_service_ns = v, "slow" => m.tiers[1].1.backlog_slowdown_per_us = v, "ref" => m.tiers[1].1.refresh_ns = v,
            "refi" => m.tiers[1].1.refresh_interval_ns = v, "var" => m.tiers[1].1.service_variation = v,
            "quiet" => {} _ => panic!("{k}"),
        }
    }
    m
}

fn main() {
    let mut over = vec![]; let mut lines = 60_000u64; let mut filter = String::new();
    for a in std::env::args().skip(1) {
        let (k, v) = a.split_once('=').unwrap();
        match k { "lines" => lines = v.parse().unwrap(), "only" => filter = v.into(), _ => over.push((k.to_string(), v.parse().unwrap())) }
    }
    let m = machine(&over);
    let text = std::fs::read_to_string(std::env::var("POINTS").unwrap_or("/work/shared/targets/fig04_cxl_devices_GBps.csv".into())).unwrap();
    let mut rows: BTreeMap<(String, u64, u64), Vec<(u64, f64, f64)>> = BTreeMap::new();
    let start = Instant::now(); let mut total = 0u64; let mut reqs = 0u64;
    for l in text.lines().skip(1) {
        let f: Vec<&str> = l.split(',').collect();
        let (op, d, size, t, g) = (f[0], f[1].parse::<u64>().unwrap(), f[2].parse::<u64>().unwrap(), f[3].parse::<u64>().unwrap(), f[4].parse::<f64>().unwrap());
        if !format!("{op},{d},{size}").contains(&filter) { continue; }
        let order = if op.starts_with("seq") { Order::Sequential } else { Order::Random };
        let access = if op.ends_with("read") { Access::Load } else { Access::Store };
        let region = 7u64 << 30;
        let mut map = AddressMap::new();
        map.add(0, region >> 12, if d == 0 {vec![0]} else {(1..=d as u8).collect()});
        let programs: Vec<Box<dyn Program>> = (0..t).map(|i| Box::new(Pattern::new(access, order, size as u32, region, i, t, 1)) as _).collect();
        let o = Simulation::new(&m, map, programs, Caches::Streaming).unwrap().measure(lines / 3 + t * if access==Access::Store {2800} else {500}, lines);
        total += o.lines; reqs += o.requests();
        rows.entry((op.into(), d, size)).or_default().push((t, g, o.gb_per_s()));
    }
    let el = start.elapsed().as_secs_f64();
    let mut all = vec![]; let mut byop: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (k, v) in &rows {
        let e: Vec<f64> = v.iter().map(|(_, g, m)| (m / g - 1.0) * 100.0).collect();
        let mape = e.iter().map(|x| x.abs()).sum::<f64>() / e.len() as f64;
        byop.entry(k.0.clone()).or_default().extend(e.iter().map(|x| x.abs()));
        all.extend(e.iter().map(|x| x.abs()));
        if !over.iter().any(|(k, _)| k == "quiet") {
            println!("{:10} {} {:4} {:5.1}%  pub {}", k.0, k.1, k.2, mape, v.iter().map(|x| format!("{:5.1}", x.1)).collect::<String>());
            println!("                          mod {}", v.iter().map(|x| format!("{:5.1}", x.2)).collect::<String>());
        }
    }
    for (k, v) in &byop { println!("{k} {:.2}%", v.iter().sum::<f64>() / v.len() as f64); }
    println!("all {:.2}%  {:.2}s  {:.1} M lines/s {:.1} M requests/s", all.iter().sum::<f64>() / all.len() as f64, el, total as f64 / el / 1e6, reqs as f64 / el / 1e6);
}
