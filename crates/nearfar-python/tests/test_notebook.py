"""The notebook of the docs runs as it is written."""

import importlib.util
import json
import pathlib

import pytest

NOTEBOOK = pathlib.Path(__file__).parents[3] / "docs" / "notebooks" / "tour.ipynb"


def cells():
    notebook = json.loads(NOTEBOOK.read_text())
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_all_cells_run():
    variables = {}
    for source in cells():
        if ".plot(" in source and importlib.util.find_spec("matplotlib") is None:
            with pytest.raises(ImportError, match="matplotlib"):
                exec(source, variables)
        else:
            exec(source, variables)
    assert list(variables["chased"]["kind"].unique()) == ["modelled"]
