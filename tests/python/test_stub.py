"""The checked-in stub is what nanobind makes of the extension module, and the package says it is typed."""

import pathlib

from nanobind.stubgen import StubGen

import coda_cpp

PACKAGE = pathlib.Path(coda_cpp.__file__).parent


def test_stub_is_current():
    generator = StubGen(coda_cpp._core)
    generator.put(coda_cpp._core)
    assert (PACKAGE / "_core.pyi").read_text() == generator.get(), "run make golden and read the difference"


def test_package_is_typed():
    assert (PACKAGE / "py.typed").exists()


def test_everything_public_is_documented():
    public = {name: value for name, value in vars(coda_cpp).items() if not name.startswith("_")}
    assert [name for name, value in public.items() if not isinstance(value, coda_cpp.DType) and not value.__doc__] == []


def test_version_is_the_projects():
    cmake = (PACKAGE.parents[1] / "CMakeLists.txt").read_text()
    assert f"project(coda VERSION {coda_cpp.__version__} " in cmake
