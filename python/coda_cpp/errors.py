"""The exceptions coda raises. Each is an :class:`Error` and also the builtin exception of its kind, so that
``except ValueError`` and ``except coda_cpp.Error`` both catch it."""

import builtins


class Error(Exception):
    """Base of every exception coda raises."""


class ValueError(Error, builtins.ValueError):
    """A value, shape, layout or file content that does not fit."""


class TypeError(Error, builtins.TypeError):
    """A dtype or kind of argument that does not fit."""


class IndexError(Error, builtins.IndexError):
    """An index (a loss target, a token) outside its range."""


class NotImplementedError(Error, builtins.NotImplementedError):
    """Something coda does not do, said before anything ran."""


class ImportError(Error, builtins.ImportError):
    """A package that is missing or too old for what was asked of coda."""


class FileError(Error, builtins.OSError):
    """A file that could not be opened, read or written."""


class DeviceError(Error, builtins.RuntimeError):
    """A failure of the GPU or its driver."""


class OutOfMemoryError(Error, builtins.MemoryError):
    """GPU memory that could not be had."""


class InternalError(Error, builtins.RuntimeError):
    """A broken invariant: a fault in coda, never in the caller."""
