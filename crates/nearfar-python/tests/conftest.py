"""What all tests have: a database in memory, and the names that examples of docstrings use."""

import nearfar
import pytest


@pytest.fixture
def db():
    with nearfar.connect(threads=2) as connection:
        yield connection


_examples = None


@pytest.fixture(autouse=True)
def names_of_examples(doctest_namespace):
    global _examples
    if _examples is None:
        _examples = nearfar.connect(threads=2)
    doctest_namespace["nearfar"] = nearfar
    doctest_namespace["db"] = _examples
