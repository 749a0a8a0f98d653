"""Data that does not fit is refused with its name, its shape and its row."""

import io
import re
import struct
import warnings
import zipfile

import numpy as np
import pytest

import sqp_tflite
from models import dense
from sqp_tflite.errors import BadInputError
from sqp_tflite.source.load import InputSpec
from sqp_tflite.source.made_up import Scale
from sqp_tflite.source.samples import open_data, samples

ONE = (InputSpec("image", (2, 3), "float32"),)
TWO = (InputSpec("z", (2,), "float32"), InputSpec("a", (1,), "float32"))
GOOD = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


def holed(value):
    array = GOOD.copy()
    array[2, 0, 1] = value
    return array


def test_rows_are_counted_before_labels_are_looked_at_and_labels_have_a_limit():
    endless = np.broadcast_to(np.float32(1), (10**10, 4))
    with pytest.raises(BadInputError, match="same number of rows.*Cut them"):
        samples({"x": GOOD, "y": endless}, ONE)
    with pytest.raises(BadInputError, match="labels under `y` that take.*Pass fewer samples"):
        samples({"x": GOOD, "y": np.broadcast_to(np.float32(1), (4, 10**10))}, ONE)


def test_a_shape_is_looked_at_before_its_size():
    with pytest.raises(BadInputError, match="must have the shape"):
        samples({"x": np.zeros((10**15, 0))}, ONE)


def test_numbers_beyond_the_inputs_type_are_not_blamed_on_the_model():
    with pytest.raises(BadInputError, match="must fit float32.*numbers up to 1e\\+300. Scale the data"):
        samples({"x": np.full((4, 2, 3), 1e300)}, ONE)


@pytest.mark.parametrize(
    ("dtype", "values", "wrong"),
    [
        ("uint8", [0.0, 300.0], 1),
        ("uint8", [-1, 0], 1),
        ("int32", [0.5, 1.5], 2),
        ("int64", [0.0, 1e30], 1),
        ("bool", [0, 2], 1),
        ("uint8", [0.0, 255.0], 0),
        ("bool", [0.0, 1.0], 0),
        ("int8", [False, True], 0),
        ("float32", [0.5, 1 / 3], 0),
    ],
)
def test_numbers_that_an_integer_input_does_not_have_are_refused(dtype, values, wrong):
    spec = (InputSpec("x", (), dtype),)
    if not wrong:
        assert samples({"x": np.array(values)}, spec).inputs[0].dtype == dtype
        return
    words = rf"must hold numbers of {dtype}, the type of the input. Received: .*, {wrong} of which"
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        samples({"x": np.array(values)}, spec)


def test_a_masked_array_is_refused_and_a_filled_one_is_taken():
    given = np.ma.masked_less(GOOD, 2)
    with pytest.raises(BadInputError, match=r"masked array with 2 masked elements.*array.filled\(value\)"):
        samples({"x": given}, ONE)
    assert samples({"x": given.filled(0)}, ONE).inputs[0].min() == 0


@pytest.mark.parametrize("name", ["image", "x"])
def test_the_only_input_may_be_called_x(name):
    assert samples({name: GOOD}, ONE).inputs[0].shape == (4, 2, 3)


def test_inputs_come_in_keras_order():
    found = samples({"a": np.zeros((5, 1)), "z": np.ones((5, 2)), "y": np.arange(5)}, TWO)
    assert [array.shape for array in found.inputs] == [(5, 2), (5, 1)]
    assert found.labels is not None and len(found.labels) == 5


BAD = {
    "missing": ({"y": np.zeros(4)}, ONE, "must hold one array per Keras input: `image`"),
    "misnamed": ({"img": GOOD}, ONE, "Received: `img`"),
    "too many": ({"image": GOOD, "extra": GOOD}, ONE, "`extra`"),
    "shape": ({"image": GOOD[:, :1]}, ONE, r"shape \(samples, 2, 3\). Received: \(4, 1, 3\)"),
    "no batch": ({"image": GOOD[0]}, ONE, r"Received: \(2, 3\)"),
    "empty": ({"image": GOOD[:0]}, ONE, "at least one sample"),
    "nan": ({"image": holed(np.nan)}, ONE, "1 of 4 rows, the first is row 2"),
    "inf": ({"image": holed(-np.inf)}, ONE, "the first is row 2"),
    "text": ({"image": np.full((4, 2, 3), "a")}, ONE, "must hold numbers"),
    "lengths": ({"z": np.ones((5, 2)), "a": np.ones((4, 1))}, TWO, "same number of rows"),
    "labels": ({"x": GOOD, "y": np.zeros(3)}, ONE, "same number of rows"),
    "labels of text": ({"x": GOOD, "y": np.full(4, "a")}, ONE, "`y` in `data` must hold numbers. Received: dtype <U1"),
    "complex labels": ({"x": GOOD, "y": np.ones(4, complex)}, ONE, "must hold numbers. Received: dtype complex128"),
    "labels with NaN": ({"x": GOOD, "y": np.array([0, 1, np.nan, 1])}, ONE, "`y` in `data` must be finite.*1 of 4"),
    "type": (3, ONE, "Received: 3"),
    "no file": ("nowhere.npz", ONE, "does not exist"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused_in_words(case):
    data, specs, words = BAD[case]
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        samples(data, specs)


def test_files_are_read(tmp_path):
    np.savez(tmp_path / "d.npz", image=GOOD, y=np.arange(4))
    np.save(tmp_path / "d.npy", GOOD)
    assert len(samples(tmp_path / "d.npz", ONE)) == len(samples(tmp_path / "d.npy", ONE)) == 4


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04broken"])
def test_broken_files_are_refused(tmp_path, content):
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(sqp_tflite.BadInputError, match="must be an .npz file"):
        samples(tmp_path / "d.npz", ONE)


def test_pickles_are_never_opened(tmp_path):
    np.savez(tmp_path / "d.npz", image=np.array([{"a": 1}], dtype=object))
    with pytest.raises(sqp_tflite.BadInputError, match="`image` in .* must be a plain array of numbers"):
        samples(tmp_path / "d.npz", ONE)


def test_made_up_inputs_are_ordinary_large_and_extreme():
    found = samples(None, ONE)
    (values,) = found.inputs
    sizes = {name: float(np.abs(values[part]).max()) for name, part in found.parts().items()}
    assert list(sizes) == ["ordinary", "large", "extreme"] and not values[0].any() and not found.given
    assert 2 < sizes["ordinary"] < 6 and 30 < sizes["large"] < 150 and 1000 < sizes["extreme"] < 5000
    np.testing.assert_array_equal(values, samples(None, ONE).inputs[0])


INTEGERS = {
    "rows of a table": (InputSpec("word", (7,), "int32", categories=5), None, (0, 4)),
    "its own table": (InputSpec("word", (7,), "int32", categories=5), Scale(9.5, 9.5), (0, 19)),
    "a byte": (InputSpec("pixel", (700,), "uint8"), None, (0, 255)),
    "a pixel": (InputSpec("pixel", (700,), "uint8"), Scale(127.5, 127.5, even=True), (0, 255)),
    "unknown": (InputSpec("kind", (7,), "int64"), None, (0, 1)),
    "yes or no": (InputSpec("flag", (7,), "bool"), None, (0, 1)),
}


@pytest.mark.parametrize("case", INTEGERS)
def test_made_up_integers_are_in_their_range(case):
    spec, scale, ends = INTEGERS[case]
    found = samples(None, (spec,), scales=lambda: {} if scale is None else {spec.name: scale})
    assert list(found.parts()) == ["ordinary"]
    assert (int(found.inputs[0].min()), int(found.inputs[0].max())) == ends


def test_a_broken_archive_is_refused_by_the_whole_export(tmp_path):
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04broken")
    with pytest.raises(sqp_tflite.BadInputError, match="must be an .npz file"):
        sqp_tflite.export(dense(), data=tmp_path / "d.npz")


def header(shape: str, kind: str = "'<f8'") -> bytes:
    """The beginning of an .npy file, whatever it claims, and 256 bytes of content."""
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - len(text) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"\0" * 256


CLAIMS = {
    "1e12 rows": (header("(1000000000000, 2, 3)"), "fits in memory. Received: a header that declares"),
    "1e21 rows": (header("(1000000000000000000000, 2, 3)"), "fits in memory"),
    "more than there is": (header("(8, 2, 3)"), "must be a plain array"),
    "less than nothing": (header("(-1, 2, 3)"), "must be a plain array"),
    "words for a shape": (header("('a', 2, 3)"), "shape is not valid"),
    "objects": (header("(8, 2, 3)", "'O'"), "Python objects"),
    "a type that is none": (header("(8, 2, 3)", "'<q9'"), "must be a plain array"),
    "another version": (header("(8,)").replace(b"NUMPY\x01", b"NUMPY\x09"), "format version"),
    "no end": (header("(8, (((("), "a damaged header"),
}


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("case", CLAIMS)
def test_an_array_that_claims_what_cannot_be_is_one_line(tmp_path, case, ending):
    content, words = CLAIMS[case]
    path = tmp_path / f"d.{ending}"
    if ending == "npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", content)
    with pytest.raises(sqp_tflite.BadInputError, match=words) as caught:
        samples(path, ONE)
    text = str(caught.value)
    assert len(text.splitlines()) == 1 and "numpy.savez(path, x=numpy.asarray(values" in text
    assert ("`x` in" in text) == (ending == "npz")


@pytest.mark.parametrize(
    ("local", "central", "value", "words"),
    [(6, 8, 1, "not be encrypted. Received: `x.npy`"), (8, 10, 93, "by method 93"), (8, 10, 9, "by method 9")],
)
def test_archives_that_python_cannot_unpack_are_named(tmp_path, local, central, value, words):
    np.savez(tmp_path / "d.npz", x=GOOD)
    content = bytearray((tmp_path / "d.npz").read_bytes())
    for signature, place in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        content[content.index(signature) + place] = value
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(sqp_tflite.BadInputError, match=f"{words}.*Save it with numpy.savez"):
        samples(tmp_path / "d.npz", ONE)


def test_a_flipped_bit_is_one_line_or_harmless(tmp_path):
    generator = np.random.default_rng(5)
    np.savez_compressed(tmp_path / "d.npz", x=GOOD, y=np.arange(4))
    np.save(tmp_path / "d.npy", GOOD)
    for path in (tmp_path / "d.npz", tmp_path / "d.npy"):
        content = path.read_bytes()
        for _ in range(80):
            changed = bytearray(content)
            changed[generator.integers(min(len(content), 600))] ^= 1 << generator.integers(8)
            path.write_bytes(changed)
            try:
                samples(path, ONE)
            except sqp_tflite.BadInputError as error:
                assert len(str(error).splitlines()) == 1 and len(str(error)) < 800


def test_another_kind_of_file_is_named_by_its_beginning(tmp_path):
    (tmp_path / "d.csv").write_text("1,2,3")
    with pytest.raises(sqp_tflite.BadInputError, match="another kind of file, which begins with b'1,2,3'"):
        samples(tmp_path / "d.csv", ONE)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([".npy"], "a part that is called `.npy`"),
        (["x"], "a part that is called `x`"),
        (["x.npy", "x"], "`x` a second time"),
        (["x.npy", "x.npy"], "`x.npy` a second time"),
    ],
)
def test_arrays_with_odd_names_are_refused(parts, says, tmp_path):
    held = io.BytesIO()
    np.save(held, np.zeros((2, 3), "float32"))
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in parts:
            archive.writestr(part, held.getvalue())
    with pytest.raises(BadInputError, match=re.escape(says)):
        open_data(tmp_path / "odd.npz")
