"""What differentiate and with_saved refuse and its text; tests/errors/autodiff.cpp has the core's in full."""

import pytest

import coda_cpp as coda
from coda_cpp import errors

E, Cot = coda.epilogues, coda.Cotangent
CURE = (", which is neither stored nor follows from what is: store it (with_saved), or let the accumulator be computed "
        "again (recompute_acc)")
OUT = [Cot.load("out")]


@coda.epilogue
def several(acc, index: coda.Col(dtype="i32"), limit: coda.Row, cos: coda.Tile(period=4)):
    return {"out": acc * cos * (acc < limit), "selected": coda.select_col(acc, index),
            "largest": coda.reduce_row(acc, "max", 64)}


ALL = [Cot.load("out"), Cot.load("selected"), Cot.none("largest")]
START = "differentiate: program 'several': "
# (exception, exact text, call)
ROWS = [
    (ValueError, f"differentiate: program 'bias_gelu': the backward needs value 'z'{CURE}",
     lambda: coda.differentiate("bias_gelu", ["acc0"], OUT)),
    (ValueError, f"differentiate: program 'sigmoid': the backward needs value 'acc0'{CURE}",
     lambda: coda.differentiate("sigmoid", ["acc0"], OUT, saved=[])),
    (ValueError, "differentiate: program 'sigmoid': saved names 'acc0', expected tiles the program writes",
     lambda: coda.differentiate("sigmoid", ["acc0"], OUT, saved=["acc0"])),
    (ValueError, "differentiate: program 'bias': wrt is empty, expected some of acc0, bias",
     lambda: coda.differentiate("bias", [], OUT)),
    (ValueError, "differentiate: program 'bias': wrt names 'weight', expected some of acc0, bias",
     lambda: coda.differentiate("bias", ["weight"], OUT)),
    (ValueError, "differentiate: program 'bias': output 'out' has no cotangent, expected one for each output: "
                 "Cotangent::none where nothing depends on it", lambda: coda.differentiate("bias", ["acc0"], [])),
    (ValueError, "differentiate: program 'bias': a cotangent is given for 'y', which is no output: expected some of out",
     lambda: coda.differentiate("bias", ["acc0"], [Cot.load("y")])),
    (ValueError, "differentiate: program 'bias': the cotangent of 'out' arrives as the accumulator, which recompute_acc "
                 "makes the forward's own: load it",
     lambda: coda.differentiate("bias", ["acc0"], [Cot.acc("out")], recompute_acc=True)),
    (ValueError, "differentiate: program 'bias': the program that computes the cotangent of 'out' reads an accumulator, "
                 "expected loads alone",
     lambda: coda.differentiate("bias", ["acc0"], [Cot.computed("out", E.identity())])),
    (ValueError, "differentiate: program 'bias': partial_width is 96, expected a multiple of 64, above 0: a partial result "
                 "covers whole tiles", lambda: coda.differentiate("bias", ["acc0"], OUT, partial_width=96)),
    (TypeError, f"{START}wrt names 'index', which is i32, expected a floating operand: integers have no gradient",
     lambda: coda.differentiate(several, ["index"], ALL)),
    (NotImplementedError, f"{START}wrt names 'cos', a tile that repeats every 4 columns: sums over columns of a tile's "
                          "entries are not implemented; leave it out",
     lambda: coda.differentiate(several, ["cos"], ALL)),
    (ValueError, f"{START}no gradient reaches 'limit': no output with a cotangent depends on it smoothly; leave it out of "
                 "wrt", lambda: coda.differentiate(several, ["limit"], ALL, recompute_acc=True)),
    (NotImplementedError, f"{START}reduce: output 'largest' is a maximum, whose derivative is not implemented: give it "
                          "Cotangent::none",
     lambda: coda.differentiate(several, ["acc0"], [*ALL[:2], Cot.load("largest")], recompute_acc=True)),
    (ValueError, "with_saved: program 'rms': 'rstd' is a col, expected the name of a tile, or acc0",
     lambda: coda.with_saved(E.rms(count=64), ["rstd"])),
    (ValueError, "with_saved: program 'bias': 'y' is no value of the program, expected the name of a tile, or acc0",
     lambda: coda.with_saved("bias", ["y"])),
    # Arguments of another kind.
    (TypeError, "differentiate: argument 'wrt' is a str, expected a list of names",
     lambda: coda.differentiate("bias", "acc0", OUT)),
    (TypeError, "differentiate: argument 'wrt' has a int, expected names as str",
     lambda: coda.differentiate("bias", [0], OUT)),
    (TypeError, "differentiate: argument 'saved' is a bool, expected a list of names",
     lambda: coda.differentiate("bias", ["acc0"], OUT, saved=True)),
    (TypeError, "with_saved: argument 'values' is a str, expected a list of names",
     lambda: coda.with_saved("bias_gelu", "z")),
    (TypeError, "differentiate: argument 'cotangents' is a Cotangent, expected a list of coda_cpp.Cotangent, one for each "
                "output", lambda: coda.differentiate("bias", ["acc0"], Cot.acc("out"))),
    (TypeError, "differentiate: argument 'cotangents' has a str, expected coda_cpp.Cotangent.acc, .load, .computed or "
                ".none of an output", lambda: coda.differentiate("bias", ["acc0"], {"out": "acc"})),
    (TypeError, "differentiate: argument 'epilogue' is a int, expected a Program, a function decorated with "
                "@coda_cpp.epilogue, or a name such as 'bias_gelu'", lambda: coda.differentiate(1, ["acc0"], OUT)),
    (ValueError, "differentiate: epilogue 'rms' has options, expected coda_cpp.epilogues.rms(...)",
     lambda: coda.differentiate("rms", ["acc0"], OUT)),
]


@pytest.mark.parametrize("kind, text, call", ROWS, ids=[text[:70] for _, text, _ in ROWS])
def test_text(kind, text, call):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    assert type(caught.value) is getattr(errors, kind.__name__)
