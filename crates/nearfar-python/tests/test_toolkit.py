"""Tiers, figures, models, prices and trees."""

import random
import threading

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
    tree = nearfar.Tree(tiers={"near": 256 << 20})
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
