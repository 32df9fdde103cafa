"""Entresol's lab: caches on traces of page references, with the policies of the engine itself.

    import entresol
    trace = entresol.read_trace("pg.bin.zst")
    runs = entresol.simulate(trace, ["none", "lc", "face-gsc"], flash=[0.04, 0.08, 0.16], dram_percent=2)
    runs.to_pandas()

Options are those of the command `entresol` with underscores, and results are the command's to the digit. Work is done
without the interpreter's lock.
"""

import json as _json
import numbers as _numbers
import sys as _sys
import time as _time

import numpy as _numpy

from ._entresol import Cache, Trace as _Trace, __version__
from ._entresol import advise as _advise, mrc as _mrc, simulate as _simulate

__all__ = ["Cache", "Results", "Trace", "advise", "mrc", "read_trace", "simulate", "trace_of", "__version__"]

_OPS = _numpy.array(["read", "write", "dirty"])


class Trace:
    """A trace in memory. `pages`, `ops` and `times_us` are its columns; `to_arrow` and `to_pandas` are tables."""

    def __init__(self, inner):
        self._inner = inner

    name = property(lambda self: self._inner.name)
    page_bytes = property(lambda self: self._inner.page_bytes)
    unique_pages = property(lambda self: self._inner.unique_pages)
    pages = property(lambda self: _numpy.frombuffer(self._inner.page_column(), dtype="<u8"))
    ops = property(lambda self: _numpy.frombuffer(self._inner.op_column(), dtype="u1"))

    @property
    def times_us(self):
        """Microseconds since the start, or None if the trace has no times."""
        column = self._inner.time_column()
        return _numpy.frombuffer(column, dtype="<u8") if column else None

    def __len__(self):
        return len(self._inner)

    def __repr__(self):
        return repr(self._inner)

    def to_arrow(self):
        """A pyarrow.Table: `page`, `op` (0 read, 1 write, 2 dirty), `time_us`."""
        import pyarrow

        columns = {"page": self.pages, "op": self.ops}
        if self.times_us is not None:
            columns["time_us"] = self.times_us
        return pyarrow.table(columns)

    def to_pandas(self):
        """The same as a pandas.DataFrame, with operations as words."""
        import pandas

        columns = {"page": self.pages, "op": pandas.Categorical.from_codes(self.ops, _OPS)}
        if self.times_us is not None:
            columns["time_us"] = self.times_us
        return pandas.DataFrame(columns)


class Results(list):
    """What was asked, as dicts, a run or a curve each: what the command writes with --json."""

    def to_pandas(self):
        """A pandas.DataFrame, a row each."""
        import pandas

        return pandas.json_normalize(list(self))

    def to_arrow(self):
        """A pyarrow.Table, a row each."""
        import pyarrow

        return pyarrow.Table.from_pylist(list(self))

    def _repr_html_(self):
        """A table, where a notebook shows it."""
        return self.to_pandas()._repr_html_()


def read_trace(path, **options):
    """Reads a trace of any format that the command knows, Parquet too: format, stream, page_bytes, columns …"""
    return Trace(_Trace.read(str(path), _words(options)))


def trace_of(pages, ops=None, times_us=None, page_bytes=4096, name="trace"):
    """A trace of arrays (NumPy, Arrow without nulls, lists): page numbers; operations, 0 read, 1 write, 2 dirty, or
    truths (a write); microseconds. Arrays of 64-bit integers, and of bytes and truths for operations, are read in place;
    others are converted first."""
    return Trace(_Trace.of(_array(pages, "u8"), _array(ops, "u1"), _array(times_us, "u8"), page_bytes, name))


def simulate(trace, policies, flash=None, *, progress=None, **options):
    """Replays a trace through DRAM, flash and disk: a row for each policy and each size of the flash. `flash`: sizes,
    whole numbers of pages or shares of the trace's pages below one; `flash_percent` and `flash_pages` do as well.
    `progress`: a function that is told the share that is done, or True for a line on stderr. All other options are those
    of `entresol simulate --help`."""
    return Results(_ask(_simulate, trace, {"policy": policies, **_sizes(flash), **options}, progress))


def mrc(trace, policies=("lru", "fifo", "clock"), *, sizes=None, progress=None, **options):
    """Miss-ratio curves: see `entresol mrc --help`."""
    return Results(_ask(_mrc, trace, {"policy": policies, "sizes": sizes, **options}, progress))


def advise(trace, *, progress=None, **options):
    """What to buy: see `entresol advise --help`. A dict."""
    return _ask(_advise, trace, options, progress)


def _sizes(flash):
    """The option of the command for these sizes of the flash."""
    if flash is None:
        return {}
    sizes = list(flash) if hasattr(flash, "__iter__") else [flash]
    if all(isinstance(size, _numbers.Integral) for size in sizes):
        return {"flash_pages": [int(size) for size in sizes]}
    if all(isinstance(size, _numbers.Real) and 0 < size < 1 for size in sizes):
        # As a person writes them: 0.07 is 7 per cent, and not 7.000000000000001.
        return {"flash_percent": [format(size * 100, ".12g") for size in sizes]}
    raise ValueError(f"flash: {sizes} are neither whole numbers of pages nor shares of the trace's pages between 0 and 1")


def _ask(question, trace, options, progress):
    told = _line() if progress is True else progress
    try:
        return _json.loads(question(_inner(trace), _words(options), told or None))
    finally:
        if progress is True:
            _sys.stderr.write("\r\x1b[K")


def _inner(trace):
    if isinstance(trace, Trace):
        return trace._inner
    if hasattr(trace, "__array__") or isinstance(trace, (list, tuple)):
        return trace_of(trace)._inner
    return read_trace(trace)._inner


def _words(options):
    """Options of Python as those of a command line: flash_percent=[4, 8] as --flash-percent 4,8."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, str) or not hasattr(value, "__iter__"):
            words.append(f"{option}={value}")
        else:
            words.append(f"{option}={','.join(str(one) for one in value)}")
    return words


def _array(values, kind):
    if values is None:
        return None
    if hasattr(values, "null_count") and values.null_count:
        raise ValueError(f"an array has {values.null_count} nulls; a trace has none")
    if hasattr(values, "to_numpy") and not hasattr(values, "__array_interface__"):
        values = values.to_numpy()
    values = _numpy.asarray(values)
    if not values.size:
        values = values.astype(kind)
    if values.ndim != 1 or values.dtype.kind not in "iub":
        raise ValueError(f"an array of {values.ndim} dimensions of {values.dtype}; columns of whole numbers are read")
    wanted = _numpy.dtype(kind)
    least, most = _numpy.iinfo(wanted).min, _numpy.iinfo(wanted).max
    if values.size and values.dtype != bool and not (least <= int(values.min()) and int(values.max()) <= most):
        raise ValueError(f"an array has numbers that are not in {least} to {most}")
    # The same bytes under another name, where they are that.
    if values.dtype.itemsize == wanted.itemsize and values.dtype.isnative and values.flags.c_contiguous:
        return values.view(wanted)
    return _numpy.ascontiguousarray(values, dtype=wanted)


def _line():
    began = _time.monotonic()

    def told(share):
        passed = _time.monotonic() - began
        left = passed / share - passed if share > 0 else 0
        _sys.stderr.write(f"\r\x1b[K{share:4.0%}, {left:.0f} s left")

    return told
