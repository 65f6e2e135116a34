//! The interference matrix: short real runs, and the model.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearfar_measure::Kind;
use nearfar_measure::interference::{
    Application, ApplicationMetric, ApplicationType, InterferenceError, InterferenceObserver,
    Matrix, Modelled, Native, NativeOptions, Point, PointOutcome, Selection, StorageOptions, Table,
};
use nearfar_measure::results::{Header, Metric};
use nearfar_topology::{Profile, Topology};

/// Keeps all figures, and stops after some points.
#[derive(Default)]
struct Collector<'a> {
    metrics: Vec<Metric>,
    points: Vec<String>,
    stops: Option<(usize, &'a AtomicBool)>,
    done_before: Vec<String>,
}

impl InterferenceObserver for Collector<'_> {
    fn is_done(&self, point: &Point) -> bool {
        self.done_before.contains(&point.to_string())
    }

    fn done(&mut self, point: &Point, outcome: &PointOutcome) -> std::io::Result<()> {
        self.metrics.extend(outcome.metrics(point));
        self.points.push(point.to_string());
        if let Some((after, stop)) = self.stops
            && self.points.len() >= after
        {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn options() -> NativeOptions {
    NativeOptions {
        time: Duration::from_millis(10),
        settle: Duration::from_millis(10),
        repetitions: 2,
        region_bytes: 4 << 20,
        cpus: Vec::new(),
        storage: None,
        application: None,
        application_tier: None,
        causes: false,
    }
}

fn native(options: NativeOptions) -> Native {
    let topology = Topology::this_machine().unwrap();
    Native::new(options, topology, Path::new("/sys")).unwrap()
}

/// The machine, unless it has one processor, on which nothing can run beside anything.
fn with_two_processors(options: NativeOptions) -> Option<Native> {
    Some(native(options)).filter(|native| native.ground().cpus >= 2)
}

fn selection(under_test: &[&str], beside: &[&str]) -> Selection {
    Selection {
        under_test: words(under_test),
        beside: words(beside),
        threads: vec![1],
        background_threads: vec![1],
        ..Selection::default()
    }
}

#[test]
fn memory_is_measured_alone_and_beside_memory_and_copies() {
    let Some(native) = with_two_processors(options()) else {
        return;
    };
    let selected = selection(
        &["near ld"],
        &["near st", "near copy", "near movdir64b", "ssd"],
    );
    let matrix = Matrix::new(&selected, native.ground()).unwrap();
    let plan = native.plan(&matrix).unwrap();
    assert!(!plan.time().is_zero() && plan.memory_bytes() >= 8 << 20);
    let mut collector = Collector::default();
    plan.execute(&AtomicBool::new(false), &mut collector)
        .unwrap();
    let mut metrics = collector.metrics;
    let missing = matrix.missing.iter();
    metrics.extend(missing.map(|cell| cell.metric(Kind::Measured)));
    let table = Table::of(&metrics);
    let found = table.cells.iter().find(|cell| cell.beside == "near st");
    let (curve, point) = found.unwrap().largest().unwrap();
    assert_eq!((curve.threads, point.background_threads), (1, 1));
    assert!(curve.alone.median > 0.0 && point.background_bytes_per_s > Some(0.0));
    assert!(
        table
            .cells
            .iter()
            .any(|cell| cell.beside.starts_with("near to"))
    );
    let storage = table
        .cells
        .iter()
        .filter(|cell| cell.beside.starts_with("ssd"));
    let reasons: Vec<_> = storage.map(|cell| cell.gap.as_deref()).collect();
    assert_eq!(reasons, [Some("no file or device was named for it"); 4]);
    let header = Header::new("1", Vec::new(), serde_json::json!({}));
    let html = Table::page(&header, &metrics).to_html();
    assert!(html.contains("href=\"#near-ld-beside-near-st\""), "a link");
    assert!(html.contains("id=\"near-ld-beside-near-st\""), "its curve");
}

#[test]
fn an_application_is_measured_beside_memory_by_its_own_metric() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("runs");
    let application = Application {
        command: format!("echo run >> {}; echo rate 1,000", mark.display()),
        metric: ApplicationMetric::pattern("rate ([0-9,]+)", false).unwrap(),
        places_itself: false,
    };
    let given = NativeOptions {
        application: Some(application),
        application_tier: Some("near".to_owned()),
        ..options()
    };
    let Some(native) = with_two_processors(given) else {
        return;
    };
    let selected = Selection {
        is_application: true,
        ..selection(&[], &["near ntst"])
    };
    let matrix = Matrix::new(&selected, native.ground()).unwrap();
    let mut collector = Collector::default();
    let plan = native.plan(&matrix).unwrap();
    plan.execute(&AtomicBool::new(false), &mut collector)
        .unwrap();
    assert_eq!(fs::read_to_string(&mark).unwrap(), "run\n".repeat(4));
    let table = Table::of(&collector.metrics);
    let near = table.cells.iter().find(|cell| cell.beside == "near ntst");
    let (curve, point) = near.unwrap().largest().unwrap();
    assert_eq!((curve.alone.median, point.change_percent), (1000.0, 0.0));
    assert!(point.background_bytes_per_s > Some(0.0));
}

#[test]
fn an_application_that_fails_ends_the_run_with_its_words() {
    let application = Application {
        command: "echo no licence >&2; exit 4".to_owned(),
        metric: ApplicationMetric::Seconds,
        places_itself: false,
    };
    let given = NativeOptions {
        application: Some(application),
        ..options()
    };
    let Some(native) = with_two_processors(given) else {
        return;
    };
    let selected = Selection {
        is_application: true,
        ..selection(&[], &["near ld"])
    };
    let matrix = Matrix::new(&selected, native.ground()).unwrap();
    let plan = native.plan(&matrix).unwrap();
    let error = plan.execute(&AtomicBool::new(false), &mut Collector::default());
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("no licence") && error.contains("exit status: 4"),
        "{error}"
    );
}

#[test]
fn what_storage_may_not_do_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    fs::write(&file, "somebody's").unwrap();
    let storage = StorageOptions {
        path: file.clone(),
        bytes: 1 << 20,
        engine: "libaio".to_owned(),
        depth: 16,
        direct: false,
        overwrite: false,
        time: None,
    };
    let refused = |storage: StorageOptions| {
        let given = NativeOptions {
            storage: Some(storage),
            ..options()
        };
        let native = with_two_processors(given)?;
        let selected = selection(&["near ld"], &["ssd write"]);
        let matrix = Matrix::new(&selected, native.ground()).unwrap();
        Some(native.plan(&matrix).unwrap_err().to_string())
    };
    let of_folder = StorageOptions {
        path: folder.path().to_owned(),
        ..storage.clone()
    };
    for (storage, told) in [(storage, "overwrite"), (of_folder, "neither a file nor")] {
        if let Some(error) = refused(storage) {
            // Without fio, that is what is told.
            assert!(
                error.contains(told) || error.contains("fio is not"),
                "{error}"
            );
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "somebody's");
}

#[test]
fn the_model_runs_the_matrix_and_goes_on_where_it_was() {
    let profile = Profile::builtin("cxl-asic").unwrap();
    let modelled = Modelled::new(&profile).unwrap();
    let selected = Selection {
        threads: vec![2],
        background_threads: vec![40],
        ..selection(
            &["near ld"],
            &["far ntst", "far to near movdir64b", "ssd read"],
        )
    };
    let matrix = Matrix::new(&selected, modelled.ground()).unwrap();
    let stop = AtomicBool::new(false);
    let mut first = Collector {
        stops: Some((2, &stop)),
        ..Collector::default()
    };
    let stopped = modelled.execute(&matrix, &stop, &mut first);
    let done = first.points.len();
    assert!(
        matches!(stopped, Err(InterferenceError::Stopped { .. })) || done == matrix.points.len(),
        "{stopped:?}"
    );
    let mut second = Collector {
        done_before: first.points.clone(),
        ..Collector::default()
    };
    let not_stopped = AtomicBool::new(false);
    modelled
        .execute(&matrix, &not_stopped, &mut second)
        .unwrap();
    let expected: Vec<String> = matrix.points.iter().map(ToString::to_string).collect();
    assert_eq!(
        [first.points, second.points].concat(),
        expected,
        "each once, in order"
    );
    let table = Table::of(&[first.metrics, second.metrics].concat());
    assert_eq!(table.kind, Kind::Modelled);
    // Mao-2025, table III, system A: -92.9 %.
    let found = table.cells.iter().find(|cell| cell.beside == "far ntst");
    assert_eq!(found.unwrap().effect().unwrap().name(), "deep");
}

#[test]
fn storage_is_under_test_in_the_model_and_loses_what_its_copies_do() {
    let profile = Profile::builtin("cxl-agilex").unwrap();
    let modelled = Modelled::new(&profile).unwrap();
    let selected = Selection {
        background_threads: vec![16],
        ..selection(&["ssd"], &["far ntst", "near ld"])
    };
    let matrix = Matrix::new(&selected, modelled.ground()).unwrap();
    assert!(matrix.missing.is_empty(), "{:?}", matrix.missing);
    let mut collector = Collector::default();
    let never = AtomicBool::new(false);
    modelled.execute(&matrix, &never, &mut collector).unwrap();
    let table = Table::of(&collector.metrics);
    let change = |tested: &str, beside: &str| {
        let mut cells = table.cells.iter();
        let cell = cells.find(|cell| cell.tested == tested && cell.beside == beside);
        cell.unwrap().largest().unwrap().1.change_percent
    };
    // Mao-2025, figure 3a: writes in order lose more than random ones, which ask for less.
    let (write, random) = (
        change("ssd write", "far ntst"),
        change("ssd randwrite", "far ntst"),
    );
    assert!(write < -40.0 && write < random, "{write} {random}");
    assert!(change("ssd read", "far ntst") < -10.0);
    let alone = |pattern: &str| {
        let is_it = |metric: &&Metric| {
            let has = |name: &str, value: &str| {
                metric.dimensions.get(name).and_then(|one| one.as_str()) == Some(value)
            };
            has("tested", pattern) && !metric.dimensions.contains_key("beside")
        };
        let metric = collector.metrics.iter().find(is_it).unwrap();
        metric.value.get().unwrap() * 1e-9
    };
    // What the drive takes, as far as one thread copies it.
    assert!((alone("ssd randwrite") - 1.0).abs() < 0.1);
    assert!(alone("ssd write") > alone("ssd randwrite"));
}

#[test]
fn each_type_of_the_paper_selects_its_backgrounds() {
    let modelled = Modelled::new(&Profile::builtin("cxl-asic").unwrap()).unwrap();
    let of = |kind: ApplicationType| {
        let selected = Selection {
            is_application: true,
            ..selection(&[], kind.beside())
        };
        let matrix = Matrix::new(&selected, modelled.ground()).unwrap();
        let mut besides = Vec::new();
        for point in &matrix.points {
            if let Some((traffic, _)) = &point.background {
                besides.push(traffic.to_string());
            }
        }
        (kind.on(), besides)
    };
    let far = words(&["far ld", "far st", "far ntst"]);
    let near = words(&["near ld", "near st", "near ntst"]);
    let storage = words(&["ssd read", "ssd randread", "ssd write", "ssd randwrite"]);
    assert_eq!(of(ApplicationType::A), (None, far.clone()));
    assert_eq!(of(ApplicationType::B), (Some("far"), storage));
    assert_eq!(of(ApplicationType::C), (Some("near"), far));
    assert_eq!(of(ApplicationType::D), (Some("far"), near));
}
