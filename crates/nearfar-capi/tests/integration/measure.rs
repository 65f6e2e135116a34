//! Access benchmarks, in memory and in virtual time.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

use nearfar_capi::*;

use crate::told;

fn options() -> MeasureOptions {
    MeasureOptions {
        specification: null(),
        is_yaml: false,
        preset: null(),
        settings: null(),
        setting_count: 0,
        profile: null(),
        is_virtual: false,
        lines_max: 0,
        progress: None,
        context: null_mut(),
    }
}

fn setting(field: &'static CStr, value: &'static CStr) -> Setting {
    Setting {
        field: field.as_ptr(),
        value: value.as_ptr(),
    }
}

fn measure(options: &MeasureOptions, settings: &[Setting]) -> Result<Handle, Status> {
    let options = MeasureOptions {
        settings: settings.as_ptr(),
        setting_count: settings.len(),
        ..*options
    };
    let mut figures = 0;
    // SAFETY: the pointers are those of variables and constants.
    match unsafe { nearfar_measure(&raw const options, &raw mut figures) } {
        Status::Ok => Ok(figures),
        status => Err(status),
    }
}

fn figures(handle: Handle) -> Vec<Figure> {
    let mut count = 0;
    // SAFETY: there is no room, so that nothing is written but the count.
    let status = unsafe { nearfar_figures_get(handle, 0, null_mut(), 0, &raw mut count) };
    assert_eq!(status, Status::Ok, "{}", told());
    // SAFETY: a figure of zeros is one: arrays, numbers, a kind of 0 and false.
    let mut all: Vec<Figure> = vec![unsafe { std::mem::zeroed() }; count];
    // SAFETY: the vector has room for as many.
    let status = unsafe { nearfar_figures_get(handle, 0, all.as_mut_ptr(), count, &raw mut count) };
    assert_eq!(status, Status::Ok);
    assert_eq!(count, all.len());
    all
}

fn string(text: &[c_char]) -> String {
    let bytes = text.iter().take_while(|byte| **byte != 0);
    String::from_utf8(bytes.map(|byte| *byte as u8).collect()).expect("UTF-8")
}

/// A figure's dimension, which is read with `bytes` of room.
fn dimension(handle: Handle, index: usize, name: &str, bytes: usize) -> Result<String, Status> {
    let (name, mut to, mut length) = (CString::new(name).expect("a name"), vec![0; bytes], 0);
    let (to_pointer, length_pointer) = (to.as_mut_ptr(), &raw mut length);
    // SAFETY: the pointers are those of variables with room for what is said.
    match unsafe {
        nearfar_figure_text(
            handle,
            index,
            name.as_ptr(),
            to_pointer,
            bytes,
            length_pointer,
        )
    } {
        Status::Ok => {
            let text = string(&to);
            assert_eq!(text.len(), length.min(bytes.saturating_sub(1)));
            Ok(text)
        }
        status => Err(status),
    }
}

const COPY: &CStr = c"\
repetitions = 2
time = \"20ms\"
[region.from]
size = \"64MiB\"
placement = \"near\"
[region.to]
size = \"64MiB\"
placement = \"far\"
[task.copy]
operation = \"copy-nt\"
access = 4096
source = \"from\"
region = \"to\"
";

#[test]
fn a_pair_of_tiers_is_measured_in_virtual_time() {
    let options = MeasureOptions {
        specification: COPY.as_ptr(),
        profile: c"cxl-blades-4".as_ptr(),
        is_virtual: true,
        lines_max: 4_000,
        ..options()
    };
    let handle = measure(&options, &[]).expect("measured");
    let all = figures(handle);
    let metrics: Vec<String> = all.iter().map(|figure| string(&figure.metric)).collect();
    let of = |name: &str| metrics.iter().position(|metric| metric == name);
    let index = of("bandwidth_bytes_per_s").expect("a bandwidth");
    let bandwidth = &all[index];
    assert_eq!(bandwidth.kind, FigureKind::Modelled);
    assert_eq!(string(&bandwidth.unit), "B/s");
    assert!(bandwidth.is_available && !bandwidth.is_noisy && bandwidth.repetitions == 2);
    assert!(
        bandwidth.value > 1e9 && bandwidth.min <= bandwidth.value,
        "{bandwidth:?}"
    );
    assert_eq!(dimension(handle, index, "placement", 64), Ok("far".into()));
    assert_eq!(dimension(handle, index, "source", 64), Ok("near".into()));
    assert_eq!(dimension(handle, index, "threads", 64), Ok("1".into()));
    assert_eq!(dimension(handle, index, "source", 3), Ok("ne".into()));
    assert_eq!(dimension(handle, index, "source", 0), Ok(String::new()));
    assert_eq!(
        dimension(handle, index, "colour", 64),
        Err(Status::NotFound)
    );
    assert_eq!(
        dimension(handle, all.len(), "task", 64),
        Err(Status::NotFound)
    );
    assert!(of("tier_write_bytes_per_s").is_some());
    assert_eq!(nearfar_figures_free(handle), Status::Ok);
    assert_eq!(nearfar_figures_free(handle), Status::BadHandle);
}

#[test]
fn several_values_of_a_field_are_a_run_each() {
    let options = MeasureOptions {
        specification: c"region: {r: {size: 64MiB}}\ntask: {t: {operation: chase}}\n".as_ptr(),
        is_yaml: true,
        profile: c"cxl-blades-4".as_ptr(),
        is_virtual: true,
        lines_max: 2_000,
        ..options()
    };
    let settings = [
        setting(c"repetitions", c"1"),
        setting(c"placement", c"near"),
        setting(c"placement", c"far"),
    ];
    let handle = measure(&options, &settings).expect("measured");
    let all = figures(handle);
    let latency = |placement: &str| {
        let is_it = |index: &usize| {
            string(&all[*index].metric) == "latency_ns"
                && dimension(handle, *index, "placement", 64).as_deref() == Ok(placement)
        };
        let index = (0..all.len()).find(is_it).expect("a latency");
        all[index].value
    };
    assert!(latency("far") > 1.5 * latency("near"));
    assert_eq!(nearfar_figures_free(handle), Status::Ok);
}

#[test]
fn this_machine_is_measured_in_its_own_memory() {
    let settings = [
        setting(c"size", c"8MiB"),
        setting(c"pages", c"base"),
        setting(c"time", c"10ms"),
        setting(c"repetitions", c"2"),
        setting(c"pin", c"none"),
    ];
    let handle = measure(&options(), &settings).unwrap_or_else(|status| {
        panic!("{status:?}: {}", told());
    });
    let all = figures(handle);
    assert!(all.iter().all(|figure| figure.kind == FigureKind::Measured));
    assert!(all[0].value > 1e6, "{:?}", all[0]);
    let mut count = 0;
    // SAFETY: the array has room for one.
    let status = unsafe {
        let mut one: Figure = std::mem::zeroed();
        let status = nearfar_figures_get(handle, 1, &raw mut one, 1, &raw mut count);
        assert_eq!(one.metric, all[1].metric);
        status
    };
    assert_eq!((status, count), (Status::Ok, all.len()));
    assert_eq!(nearfar_figures_free(handle), Status::Ok);
}

unsafe extern "C" fn stop_at_second(
    done: usize,
    runs: usize,
    left_s: f64,
    seen: *mut c_void,
) -> bool {
    assert!(runs == 3 && left_s >= 0.0);
    // SAFETY: the context is the vector of the test.
    unsafe { &mut *seen.cast::<Vec<usize>>() }.push(done);
    done < 1
}

#[test]
fn the_caller_is_told_of_runs_and_ends_them() {
    let mut seen: Vec<usize> = Vec::new();
    let options = MeasureOptions {
        profile: c"cxl-blades-4".as_ptr(),
        is_virtual: true,
        lines_max: 1_000,
        progress: Some(stop_at_second),
        context: (&raw mut seen).cast(),
        ..options()
    };
    let settings = [
        setting(c"repetitions", c"1"),
        setting(c"threads", c"1"),
        setting(c"threads", c"2"),
        setting(c"threads", c"4"),
    ];
    assert_eq!(measure(&options, &settings), Err(Status::Stopped));
    assert!(told().contains("after 1 of 3 runs"), "{}", told());
    assert_eq!(seen, [0, 1]);
}

#[test]
fn what_can_not_be_measured_is_refused_with_the_reason() {
    let far = [setting(c"placement", c"nowhere")];
    assert_eq!(measure(&options(), &far), Err(Status::Name));
    let field = [setting(c"colour", c"red")];
    assert_eq!(measure(&options(), &field), Err(Status::Argument));
    assert!(told().contains("colour"), "{}", told());
    let broken = MeasureOptions {
        specification: c"repetitions = 3\nsped = 1\n".as_ptr(),
        ..options()
    };
    assert_eq!(measure(&broken, &[]), Err(Status::Argument));
    assert!(told().contains("line 2"), "{}", told());
    let both = MeasureOptions {
        preset: c"latency".as_ptr(),
        ..broken
    };
    assert_eq!(measure(&both, &[]), Err(Status::Argument));
    let preset = MeasureOptions {
        preset: c"no-such".as_ptr(),
        ..options()
    };
    assert_eq!(measure(&preset, &[]), Err(Status::Name));
    assert!(told().contains("heatmap"), "{}", told());
    let no_machine = MeasureOptions {
        is_virtual: true,
        ..options()
    };
    assert_eq!(measure(&no_machine, &[]), Err(Status::Argument));
    let no_profile = MeasureOptions {
        profile: c"no-such-machine".as_ptr(),
        ..options()
    };
    assert_eq!(measure(&no_profile, &[]), Err(Status::Name));
    // SAFETY: null is what is refused.
    let status = unsafe { nearfar_measure(null(), null_mut()) };
    assert_eq!(status, Status::NullPointer);
}
