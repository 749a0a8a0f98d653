"""Networks as they were published, trained by the benchmark, do what messages promise of them."""

import numpy as np
import pytest

from benchmarks import architectures


@pytest.mark.large
def test_the_remedy_for_rnnoise_at_int16_works_from_the_shell(command, tmp_path):
    """Trained, on made-up data: tflite-runtime refuses to agree as the target, and so it does beside TFLM."""
    model = architectures.trained("Z14")
    model.save(place := tmp_path / "rnnoise.keras")
    (values,) = architectures.data_of(model, "Z14", 64, seed=2)[0].values()
    np.savez(tmp_path / "d.npz", x=values)
    options = "--quantize int16x8 --replace accurate --head logits --target".split()
    for target in ("tflite-runtime", "tflm"):
        call = ["sqp-export", place, "--data", tmp_path / "d.npz", *options, target]
        refused = command(*call)
        assert refused.code == 3 and "Use --per-tensor, which gives each of these layers one." in " ".join(
            refused.err.split()
        )
        assert not place.with_suffix(".tflite").exists()
        assert command(*call, "--per-tensor").code == 0
        place.with_suffix(".tflite").unlink()
