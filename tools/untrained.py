"""TFLite files of models that nobody trained: converted and quantised, and not compared with Keras.

Their outputs mean nothing, and an export would refuse many of them for that; what a runtime computes is as hard to get
right as in a trained one.
"""

import keras
import numpy as np

from sqp_tflite import making, pipeline
from sqp_tflite.errors import RefusedError
from sqp_tflite.journal import Journal
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.options import ExportOptions
from sqp_tflite.source.convert import IMPORTS
from sqp_tflite.worker import lent, may_fork
from tools import nets, zoo

FORMS = {
    "float32": ("float32", "algebraic"),
    "int8 table": ("int8", "table"),
    "int16x8": ("int16x8", "algebraic"),
}


def model_of(name: str) -> tuple[keras.Model, dict[str, np.ndarray]]:
    """Returns a model of the zoo or of `tools/nets.py`, and samples for its ranges.

    Args:
        name: Its identifier.
    """
    model = nets.build(name) if name in nets.NETS else zoo.build(name)
    data = zoo.samples(model, 24)
    generator = np.random.default_rng(0)
    for tensor in model.inputs:
        if "int" in tensor.dtype:
            data[tensor.name] = generator.integers(0, 20, (24, *tensor.shape[1:])).astype(np.int32)
    return model, data


def file_of(model: keras.Model, data: dict[str, np.ndarray], form: str) -> bytes:
    """Returns the TFLite file.

    Args:
        model: The model.
        data: Samples by input name.
        form: One of `FORMS`.

    Raises:
        RefusedError: The interpreter lacks an operator of it.
    """
    quantize, lowering = FORMS[form]
    wanted = Combination(quantize, lowering, "tflm")
    options = ExportOptions(model=model, output=None, wanted=wanted, data=data, replace="accurate", head="logits")
    done = Journal(options)
    with lent("convert", IMPORTS, fork=may_fork()) as worker:
        given = done.keep(pipeline._loaded(options))
        changed, planned = making.planned(options, given, done)
        made = making.made(options, given, changed, planned, worker, done, lambda step: None)
    if made.findings:
        raise RefusedError("The file may not ship.", made.findings)
    return made.content
