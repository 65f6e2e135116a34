"""Tiers, figures, models, prices and trees."""

import json
import os
import random
import signal
import threading
import time

import nearfar
import numpy
import pytest


def test_tiers():
    names = [tier["name"] for tier in nearfar.tiers(profile="cxl-blades-4")]
    assert names[0] == "near" and "far" in names


def test_a_run_in_virtual_time_is_modelled():
    figures = nearfar.model.run("cxl-blades-4", preset="latency", lines=2000)
    assert len(figures) > 0
    modelled = [figure for figure in figures if figure["metric"] != "run_seconds"]
    assert {figure["kind"] for figure in modelled} == {"modelled"}
    frame = figures.df()
    assert set(frame["metric"]) == {figure["metric"] for figure in figures}
    with pytest.raises(nearfar.InterfaceError, match="preset"):
        nearfar.model.run("cxl-blades-4", preset="no-such")


def chases(profile, *seeds):
    settings = {"operation": "chase", "placement": "far", "repetitions": 1, "threads": 1}
    return [
        nearfar.model.run(profile, settings=settings | {"seed": seed}, lines=2000) for seed in seeds
    ]


def test_a_machine_is_calibrated_on_its_own_points(tmp_path):
    fit, points = ["far.read_latency_ns"], chases("cxl-fpga", 1, 2, 3, 4)
    found = nearfar.model.calibrate(points, fit=fit, rounds=20, name="mine", seed=3)
    assert list(found.parameters) == fit and found.profile["name"] == "mine"
    before = nearfar.model.profile("cxl-blades-4")["simulation"]["far"]
    assert found.parameters["far.read_latency_ns"]["before_ns"] == before["read_latency_ns"]
    assert found.fitted_error_percent < 2 and found.held_out_error_percent < 5
    assert {figure["kind"] for figure in found.figures} == {"modelled"}
    assert "far.read_latency_ns" in repr(found) and "<td>far.read_latency_ns" in found._repr_html_()
    # The new profile stands for the machine where it is named by its file.
    path = tmp_path / "mine.toml"
    found.save(path)
    assert nearfar.model.profile(str(path))["simulation"] == found.profile["simulation"]
    [truth], [predicted] = (chases(machine, 9)[0].of("latency_ns") for machine in ("cxl-fpga", path))
    assert predicted["value"] == pytest.approx(truth["value"], rel=0.1)


def test_points_are_files_too(tmp_path):
    figures = chases("cxl-fpga", 1, 2, 3)
    results = tmp_path / "points.jsonl"
    machine = {"cpu": "x", "cpus": 1, "memory_bytes": 1, "kernel": "x", "architecture": "x", "virtualized": False}
    header = {"schema": "nearfar-results/1", "version": "0", "command": [], "machine": machine}
    lines = [header | {"configuration": {}, "unavailable": []}, *(one for figure in figures for one in figure)]
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    points = tmp_path / "points.csv"
    points.write_text("op,tier,percentile,ns\nrand_read,cxl,avg,600\nrand_read,cxl,50,600\n")
    of_files = nearfar.model.calibrate([results, str(points)], fit=["far.read_latency_ns"])
    assert 300 < of_files.parameters["far.read_latency_ns"]["value_ns"] < 900


def test_points_that_make_no_profile_are_refused(tmp_path):
    [figures] = chases("cxl-blades-4", 1)
    for options, told in [
        ({"fit": ["far.colour"]}, "colour"),
        ({"hold_out": 0}, "hold_out"),
        ({"profile": "no-such-machine"}, "no-such-machine"),
        ({}, "points are left"),
    ]:
        with pytest.raises(nearfar.InterfaceError, match=told):
            nearfar.model.calibrate(figures, **options)
    with pytest.raises(nearfar.InterfaceError, match="no bandwidth or latency"):
        nearfar.model.calibrate(nearfar.Figures([]))
    with pytest.raises(FileNotFoundError):
        nearfar.model.calibrate(tmp_path / "nothing.csv")


def test_ctrl_c_ends_a_calibration():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        settings = {"repetitions": 1, "placement": "far", "threads": [12, 24], "access": [64, 4096]}
        points = nearfar.model.run("cxl-fpga", settings=settings, lines=4000)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            nearfar.model.calibrate(points, fit=["far.read_service_ns"])
        assert time.monotonic() - began < 5
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_specification_is_toml_or_yaml_by_its_name(tmp_path):
    yaml, toml = tmp_path / "s.yaml", tmp_path / "s.toml"
    yaml.write_text("repetitions: 1\ntask: {t: {operation: chase}}\n")
    toml.write_text("repetitions = 1\n[task.t]\noperation = 'chase'\n")
    of_yaml, of_toml, of_text = (
        nearfar.model.run("cxl-blades-4", given, lines=1000).of("latency_ns")
        for given in (yaml, toml, toml.read_text())
    )
    assert of_yaml[0]["value"] == of_toml[0]["value"] == of_text[0]["value"]


def test_figures_are_shown_in_notebooks():
    figures = nearfar.Figures(
        [{"metric": "m", "value": 1.5, "unit": "ns", "kind": "measured", "task": "<b>"}] * 21
    )
    shown = figures._repr_html_()
    assert "1.5 ns" in shown and "&lt;b&gt;" in shown and "and 1 more" in shown


def test_a_profile_tells_its_sources():
    for name in nearfar.model.profiles():
        assert nearfar.model.profile(name)["sources"]


def test_prices():
    found = nearfar.plan.cheapest("1TiB")
    assert found["capacity_bytes"] >= 1 << 40 and found["configuration"]["price"] > 0
    with pytest.raises(nearfar.Error):
        nearfar.plan.cheapest("100000TiB")


def test_a_tree_is_an_ordered_map():
    tree, oracle, chance = nearfar.Tree(), {}, random.Random(1)
    for _ in range(20_000):
        key = chance.randrange(5_000)
        match chance.randrange(4):
            case 0:
                tree[key] = oracle[key] = chance.randrange(2**64)
            case 1 if key in oracle:
                del tree[key]
                del oracle[key]
            case _:
                assert tree.get(key) == oracle.get(key)
    assert len(tree) == len(oracle)
    keys, values = tree.range(1_000, 4_000)
    assert list(zip(keys.tolist(), values.tolist(), strict=True)) == sorted(
        (key, value) for key, value in oracle.items() if 1_000 <= key < 4_000
    )
    found = tree.get_many(numpy.arange(5_000))
    assert found.count() == len(oracle)
    with pytest.raises(KeyError):
        del tree[10_000]


def test_a_tree_takes_arrays_and_threads():
    tree = nearfar.Tree(tiers={"near": "256MiB"})
    keys = numpy.arange(200_000, dtype=numpy.uint64)

    def insert(part):
        tree.insert_many(part, part * 2)

    threads = [threading.Thread(target=insert, args=(part,)) for part in numpy.array_split(keys, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tree.get_many(keys).filled(0) == keys * 2).all()
    assert tree.tier_bytes()["near"] > 0
    with pytest.raises(OverflowError):
        tree.insert_many([-1], [1])
    with pytest.raises(nearfar.Error, match="as many"):
        tree.insert_many([1, 2], [1])
    with pytest.raises(nearfar.Error):
        nearfar.Tree(tiers={"no such tier": 1 << 20})
