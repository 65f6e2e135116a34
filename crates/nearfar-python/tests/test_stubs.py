"""The stub of the native part names what there is."""

import ast
import inspect
import pathlib

import nearfar
from nearfar import _nearfar

STUB = pathlib.Path(nearfar.__file__).with_name("_nearfar.pyi")


def declared(body):
    """The classes, functions and variables of a stub, by name."""
    named = {node.name: node for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    variables = (node.target.id for node in body if isinstance(node, ast.AnnAssign))
    return named | dict.fromkeys(variables)


def parameters(function):
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name != "self"]


def check_parameters(where, function, found):
    told = inspect.signature(found)
    assert parameters(function) == [name for name in told.parameters if name != "self"], where


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_everything_native_is_declared_as_it_is():
    stub = declared(ast.parse(STUB.read_text()).body)
    assert public(dir(_nearfar)) == public(stub)
    for name, node in stub.items():
        found = getattr(_nearfar, name)
        if isinstance(node, ast.FunctionDef):
            check_parameters(name, node, found)
        elif isinstance(node, ast.ClassDef) and not issubclass(found, Exception):
            methods = declared(node.body)
            assert public(vars(found)) == public(methods), name
            for method, function in methods.items():
                is_property = bool(function.decorator_list)
                if not method.startswith("_") and not is_property:
                    check_parameters(f"{name}.{method}", function, getattr(found, method))


def test_exceptions_are_derived_as_declared():
    for name, node in declared(ast.parse(STUB.read_text()).body).items():
        found = getattr(_nearfar, name)
        if isinstance(node, ast.ClassDef) and issubclass(found, BaseException):
            assert [base.__name__ for base in found.__bases__] == [base.id for base in node.bases], name
