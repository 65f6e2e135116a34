//! Published points against the model.

use nearfar_measure::reproduce::{Figure, Points, ReproduceError, Reproduction, reproduce};
use nearfar_topology::{Known, Profile};

fn profile() -> Profile {
    Profile::builtin("cxl-blades-4").unwrap()
}

fn points(text: &str) -> Points {
    Points::parse("points.csv", text).unwrap()
}

fn run(text: &str) -> Reproduction {
    reproduce("points.csv", &points(text), &profile(), |_, _| {}).unwrap()
}

#[test]
fn bad_points_are_refused_with_line_and_name() {
    let cases = [
        ("", "points.csv: there are no points"),
        ("op,colour,GBps\n", "line 1: unknown column \"colour\""),
        ("op,op,GBps\n", "line 1: column \"op\" occurs twice"),
        (
            "op,threads,GBps\n",
            "line 1: no experiment has these columns",
        ),
        (
            "op,access_size,threads,GBps\nseq_read,64,1\n",
            "line 2: 3 values for 4 columns",
        ),
        (
            "op,access_size,threads,GBps\nfly,64,1,2\n",
            "line 2: op: \"fly\" is unknown",
        ),
        (
            "op,access_size,threads,GBps\nseq_read,65,1,2\n",
            "line 2: access_size: 65 is no power",
        ),
        (
            "op,access_size,threads,GBps\nseq_read,64,1.5,2\n",
            "line 2: threads: 1.5 is no whole",
        ),
        (
            "op,access_size,threads,GBps\n# x\nseq_read,64,1,NaN\n",
            "line 3: GBps: NaN is not from",
        ),
        (
            "op,access_size,threads,GBps\nseq_read,64,1,0\n",
            "line 2: GBps: 0 must be above 0",
        ),
        (
            "op,tier,percentile,ns\nseq_read,moon,50,1\n",
            "line 2: tier: \"moon\" is unknown",
        ),
        (
            "op,tier,percentile,ns\nseq_read,cpu,101,1\n",
            "line 2: percentile: 101 is not from",
        ),
        (
            "selectivity_pct,placement,threads,GBps\n1,CXL-0,1,1\n",
            "line 2: placement: \"CXL-0\" is unknown",
        ),
        (
            "capacity_demand,type,price\n\n1,CPU Memory + 4 to 1 CXL Devices,1\n",
            "line 3: type: \"CPU Memory + 4 to 1 CXL Devices\" is unknown",
        ),
        (
            "system,dut,dut_op,background,bg_op,pct\nA,CXL,ld,SSD,ld,1\n",
            "line 2: bg_op: \"ld\" is unknown; there are col1, col2",
        ),
        (
            "system,dut,dut_op,background,bg_op,pct\nA,CXL,ld,MMEM,ld,-101\n",
            "line 2: pct: -101 is not from -100",
        ),
        (
            "capacity_demand,type,devices,price\n1,CPU Memory,1,1\n",
            "line 1: column \"devices\" does not belong",
        ),
    ];
    for (text, expected) in cases {
        let error = Points::parse("points.csv", text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn more_than_the_machine_has_is_refused_before_anything_runs() {
    let text = "op,devices,access_size,threads,GBps\nseq_read,1,64,1,5\nseq_read,5,64,1,5\n";
    let mut done = 0;
    let error = reproduce("p", &points(text), &profile(), |_, _| done += 1).unwrap_err();
    assert!(
        matches!(error, ReproduceError::Point { line: 3, .. }),
        "{error}"
    );
    assert_eq!(done, 0);
    let text = "op,access_size,threads,GBps\nseq_read,64,49,5\n";
    let error = reproduce("p", &points(text), &profile(), |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("49 threads"), "{error}");
}

#[test]
fn figures_that_need_trees_say_so() {
    let figure = Figure::Fig11;
    let outcome = reproduce(figure.name(), &figure.points(), &profile(), |_, _| {}).unwrap();
    assert_eq!(outcome.mape_percent(), None);
    let metrics = outcome.metrics();
    assert_eq!(metrics[0].metric, "mape_percent");
    assert!(matches!(&metrics[0].value, Known::Unavailable(why) if why.contains("trees")));
}

#[test]
fn slots_of_a_scan_are_bound_as_published() {
    let text = "bench,group,placement,kind,pct\n\
                scan,0.1%,CPU,backend,86.0\nscan,0.1%,CPU,bad_spec,0.5\n\
                scan,0.1%,CPU,frontend,3.5\nscan,0.1%,CPU,retiring,10.0\n\
                scan,0.1%,CXL-1,backend,96.8\nscan,0.1%,CXL-1,bandwidth,70.2\n\
                btree,read95,CPU,backend,47.4\n";
    let outcome = reproduce("p", &points(text), &profile(), |_, _| {}).unwrap();
    assert_eq!(outcome.unavailable.values().sum::<usize>(), 1, "the tree");
    let modelled: Vec<f64> = outcome.points().map(|point| point.modelled).collect();
    let of_cpu: f64 = modelled[..4].iter().sum();
    assert!((of_cpu - 100.0).abs() < 1e-6, "{modelled:?}");
    assert!(modelled[4] > modelled[0], "far memory binds more slots");
    assert!(
        modelled[5] > 60.0,
        "most of them by bandwidth: {modelled:?}"
    );
    assert_eq!(outcome.error_unit(), "points");
    let metrics = outcome.metrics();
    let mean = metrics
        .iter()
        .find(|metric| metric.metric == "mean_error_points");
    assert!(mean.is_some_and(|metric| metric.value.get().is_some_and(|points| points < 15.0)));
}

#[test]
fn bad_bound_shares_are_refused_with_what_is_allowed() {
    for (row, wrong) in [
        ("scan,0.1,CPU,backend,1", "no share"),
        ("scan,0.1%,CPU,waiting,1", "retiring"),
        ("btree,0.1%,CPU,backend,1", "read95"),
        ("hash,0.1%,CPU,backend,1", "btree"),
        ("btree,read95,ColumnsCXL-1,backend,1", "no columns"),
    ] {
        let text = format!("bench,group,placement,kind,pct\n{row}\n");
        let error = Points::parse("p", &text).unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
}

#[test]
fn medians_and_tails_of_latency_are_those_published() {
    let figure = Figure::Fig5;
    let outcome = reproduce(figure.name(), &figure.points(), &profile(), |_, _| {}).unwrap();
    for point in outcome.points() {
        let allowed = match &*point.x {
            "50" => 5.0,
            "99" => 20.0,
            _ => continue,
        };
        assert!(point.error_percent().abs() <= allowed, "{point:?}");
    }
}

#[test]
fn random_writes_of_a_page_lose_little_with_a_tenth_far() {
    let row = |threads, percent| format!("rand_write,4096,{threads},{percent},1\n");
    let mut text = "op,access_size,threads,pct_in_cxl,GBps\n".to_owned();
    for (threads, percent) in [(16, 0), (16, 10), (16, 100)] {
        text += &row(threads, percent);
    }
    let outcome = run(&text);
    let modelled: Vec<f64> = outcome.points().map(|point| point.modelled).collect();
    // weisgut-2025, section 4.5.
    assert!(modelled[1] > 0.9 * modelled[0], "{modelled:?}");
    assert!(modelled[2] < 0.4 * modelled[0], "{modelled:?}");
}

#[test]
fn every_point_becomes_three_metrics() {
    let outcome = run("op,access_size,threads,GBps\nseq_read,64,1,5.4\nseq_read,64,4,20.4\n");
    let metrics = outcome.metrics();
    for name in ["published", "modelled", "error_percent"] {
        assert_eq!(
            metrics
                .iter()
                .filter(|metric| metric.metric == name)
                .count(),
            2,
            "{name}"
        );
    }
    assert_eq!(
        metrics
            .iter()
            .filter(|metric| metric.metric == "mape_percent")
            .count(),
        2
    );
    assert!(outcome.mape_percent().unwrap() < 20.0);
}

#[test]
fn all_published_prices_are_met_exactly() {
    let figure = Figure::Fig14;
    let mut without_simulation = profile();
    without_simulation.simulation = Known::unavailable("prices need none");
    let outcome = reproduce(
        figure.name(),
        &figure.points(),
        &without_simulation,
        |_, _| {},
    );
    let outcome = outcome.unwrap();
    assert_eq!(outcome.points().count(), 96);
    assert_eq!(outcome.series.len(), 3);
    assert_eq!(outcome.mape_percent(), Some(0.0));
    assert_eq!(
        (outcome.profile.as_str(), outcome.unit.as_str()),
        ("weisgut-2025", "USD")
    );
}

#[test]
fn the_machines_of_published_prices_are_the_cheapest() {
    let text = include_str!("../../src/reproduce/data/fig14.csv");
    let prices = nearfar_plan::PriceList::published();
    let rows = text
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    for row in rows {
        let cells: Vec<&str> = row.split(',').collect();
        let number = |index: usize| -> u64 { cells[index].parse().unwrap() };
        let devices = match cells[1] {
            "CPU Memory" => "0",
            "CPU Memory + 1 CXL Device" => "1",
            _ => "1-4",
        };
        let found = prices
            .cheapest(number(0) << 30, devices.parse().unwrap())
            .unwrap();
        let machine = [
            u64::from(found.cpus),
            found.near.module_gib,
            u64::from(found.devices),
            found.capacity_bytes() >> 30,
        ];
        assert_eq!(machine, [2, 3, 4, 5].map(number), "{row}");
    }
}

#[test]
fn points_of_prices_may_have_quotes_and_lines() {
    let text = "# prices\n,capacity_demand,type,cpu_id,price\n0,256,CPU Memory,8452Y,5360\n\
                1,256,\"CPU Memory +\n\n1 to 4 CXL Devices\",8452Y,9600\n";
    let outcome = run(text);
    let point = &outcome.series[1].points[0];
    assert_eq!(
        outcome.series[1].name,
        "type=CPU Memory + 1 to 4 CXL Devices"
    );
    assert_eq!(
        (point.modelled, point.error_percent()),
        (10_560.0, 10.000_000_000_000_009)
    );
    let too_large = points("capacity_demand,type,price\n9999,CPU Memory,5\n");
    let error = reproduce("p", &too_large, &profile(), |_, _| {}).unwrap_err();
    assert!(
        matches!(error, ReproduceError::Price { line: 2, .. }),
        "{error}"
    );
}
