"""Runs a notebook, in place, and writes it as a page of Markdown with its pictures beside it."""

import pathlib
import sys

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from nbconvert.writers import FilesWriter


def main(path: pathlib.Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    # Times of cells would change the file with each run.
    NotebookClient(notebook, timeout=600, record_timing=False).execute()
    # The rest of it is the version of whatever Python ran it.
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)
    resources = {"output_files_dir": f"{path.stem}_files"}
    page, resources = MarkdownExporter().from_notebook_node(notebook, resources)
    FilesWriter(build_directory=str(path.parent)).write(page, resources, notebook_name=path.stem)


main(pathlib.Path(sys.argv[1]))
