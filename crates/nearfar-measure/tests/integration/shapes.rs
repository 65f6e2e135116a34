//! Shapes that weisgut-2025 tells of and that no parameter was fitted to, in the model. The same
//! specifications can be measured. `docs/reproduction.md` says where shapes differ.

use std::sync::atomic::AtomicBool;

use nearfar_measure::access::{Document, Observer, Outcome, Plan, PlannedRun, execute};
use nearfar_measure::reproduce::{Points, reproduce};
use nearfar_topology::Profile;

#[derive(Default)]
struct Rates(Vec<f64>);

impl Observer for Rates {
    fn done(&mut self, _run: &PlannedRun, outcome: &Outcome) -> std::io::Result<()> {
        let rates = &outcome.tasks[0].bandwidth_bytes_per_s;
        self.0.push(rates.iter().sum::<f64>() / rates.len() as f64);
        Ok(())
    }
}

fn profile() -> Profile {
    Profile::builtin("cxl-blades-4").unwrap()
}

/// Bytes per second of a task with 4 KiB accesses to 7 GiB, at each point of a matrix.
fn rates(task: &str, matrix: &str) -> Vec<f64> {
    let text = format!(
        "repetitions = 2\n[region.data]\nsize = \"7GiB\"\npages = \"base\"\nplacement = \"far0\"\n\
         [task.access]\naccess = 4096\n{task}\n[matrix]\n{matrix}\n"
    );
    let document = Document::parse("shape", &text).unwrap();
    let plan = Plan::simulated(&document, &profile(), None).unwrap();
    let mut rates = Rates::default();
    execute(&plan, &AtomicBool::new(false), &mut rates).unwrap();
    rates.0
}

/// Section 4.5: with a tenth of the pages far, random writes of 4 KiB lose little with 12 threads,
/// and nothing with 16.
#[test]
fn a_tenth_far_costs_less_with_more_threads() {
    let rates = rates(
        "operation = \"write\"\npattern = \"random\"",
        "threads = [4, 12, 16]\nplacement = [\"near\", \"split:near=90%,far0\", \"far0\"]",
    );
    let share = |threads: usize| rates[3 * threads + 1] / rates[3 * threads];
    let (four, twelve, sixteen) = (share(0), share(1), share(2));
    assert!(four < twelve && twelve < sixteen, "{rates:?}");
    assert!((0.91..0.98).contains(&twelve), "{twelve}");
    assert!(sixteen > 0.97, "{sixteen}");
    // All far is far slower, whatever the threads.
    assert!(
        rates[5] < 0.25 * rates[3] && rates[8] < 0.2 * rates[6],
        "{rates:?}"
    );
}

/// Section 4.2: reads of one device stagnate at 95 % of their peak in order, and at 93 % at random.
/// In the model both stagnate at 95 to 96 %.
#[test]
fn reads_of_one_device_fall_past_the_peak() {
    for pattern in ["sequential", "random"] {
        let rates = rates(
            &format!("pattern = \"{pattern}\""),
            "threads = [4, 8, 24, 32]",
        );
        let peak = rates[1];
        assert!(
            rates[0] < 0.6 * peak && (39e9..41e9).contains(&peak),
            "{rates:?}"
        );
        for rate in &rates[2..] {
            assert!(
                (0.94..0.97).contains(&(rate / peak)),
                "{pattern}: {rates:?}"
            );
        }
    }
}

/// Section 5.3: with 40 threads, all columns on one device leave 16 % of the throughput of a scan
/// of few matches, on four devices 35 %; where all match, 48 % and 86 %, and with four devices 70 %
/// of the columns go far without a loss.
#[test]
fn columns_far_cost_a_scan_of_many_matches_little() {
    let mut text = "selectivity_pct,threads,devices,pct_columns_in_cxl,GBps\n".to_owned();
    for (selectivity, devices, percent) in [
        (0.1, 1, 0),
        (0.1, 1, 100),
        (0.1, 4, 100),
        (100.0, 1, 0),
        (100.0, 1, 100),
        (100.0, 4, 100),
        (100.0, 4, 70),
    ] {
        text += &format!("{selectivity},40,{devices},{percent},1\n");
    }
    let points = Points::parse("hybrid", &text).unwrap();
    let outcome = reproduce("hybrid", &points, &profile(), |_, _| {}).unwrap();
    let modelled = |selectivity: &str, devices: &str, percent: &str| {
        let columns = [selectivity, "40", devices, percent];
        let found = outcome.points().find(|point| {
            let values = point.columns.iter().map(|(_, value)| value.as_str());
            values.eq(columns)
        });
        found.unwrap().modelled
    };
    let share = |selectivity, devices, percent| {
        modelled(selectivity, devices, percent) / modelled(selectivity, "1", "0")
    };
    let within = |value: f64, published: f64| (value - published).abs() < 0.1;
    assert!(
        within(share("0.1", "1", "100"), 0.16),
        "{:?}",
        share("0.1", "1", "100")
    );
    assert!(
        within(share("0.1", "4", "100"), 0.35),
        "{:?}",
        share("0.1", "4", "100")
    );
    assert!(
        within(share("100", "1", "100"), 0.48),
        "{:?}",
        share("100", "1", "100")
    );
    assert!(
        within(share("100", "4", "100"), 0.86),
        "{:?}",
        share("100", "4", "100")
    );
    assert!(
        share("100", "4", "70") > 0.98,
        "{:?}",
        share("100", "4", "70")
    );
}

/// Section 5.3: with ten threads, throughput falls gradually with the share of the columns on one
/// device. It is less than if threads kept their columns and each counted by itself, and more than
/// if all waited for the slowest column.
#[test]
fn throughput_falls_gradually_with_the_share_of_far_columns() {
    let mut text = "selectivity_pct,threads,devices,pct_columns_in_cxl,GBps\n".to_owned();
    for percent in [0, 10, 50, 100] {
        text += &format!("0.1,10,1,{percent},1\n");
    }
    let points = Points::parse("figure 8", &text).unwrap();
    let outcome = reproduce("figure 8", &points, &profile(), |_, _| ()).unwrap();
    let rates: Vec<f64> = outcome.points().map(|point| point.modelled).collect();
    let [near, tenth, half, far] = rates[..] else {
        panic!("{rates:?}");
    };
    assert!(near > tenth && tenth > half && half > far, "{rates:?}");
    for (share, rate) in [(0.1, tenth), (0.5, half)] {
        assert!(rate < (1.0 - share) * near + share * far, "{rates:?}");
    }
    assert!(tenth > 0.8 * near && half > 0.4 * near, "{rates:?}");
}

/// Section 4.5, figure 6: stores to CPU memory are as fast as loads; those to a device are slower.
#[test]
fn ownership_costs_on_far_memory_only() {
    let text = "op,access_size,threads,pct_in_cxl,GBps\nrand_read,64,1,0,1\nrand_write,64,1,0,1\n\
                rand_read,64,1,100,1\nrand_write,64,1,100,1\n";
    let points = Points::parse("figure 6", text).unwrap();
    let outcome = reproduce("figure 6", &points, &profile(), |_, _| ()).unwrap();
    let mut rates = outcome.points().map(|point| point.modelled);
    let mut next = || rates.next().unwrap();
    // Near, then far: series by series.
    let (reads, writes) = ((next(), next()), (next(), next()));
    assert!((0.95..1.05).contains(&(writes.0 / reads.0)), "{writes:?}");
    assert!(writes.1 < 0.9 * reads.1, "{writes:?}");
}
