"""Fine-tunes a changed model towards the original."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from sqp_keras import accept, private
from sqp_keras.models import observe
from sqp_keras.models.rebuild import copied_activation, rebuild
from sqp_keras.models.sites import Site, function_at, is_functional, sites

_MEASURED_ROWS = 1024
_STEP = 1e-3
"""Adam's default step, and the largest that is chosen."""
_SAFE_DISTANCE = 0.05
"""Below this distance the chosen step falls in proportion: steps of 1e-3 would leave a good start."""
_SMALLEST = 1e-6
"""Training does not tell smaller probabilities apart."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A layer that got its original activation back, and how much that lowered the model's distance."""

    layer: str
    cost: float


@dataclass(frozen=True, slots=True)
class Distillation:
    """What `distill` did.

    Attributes:
        before: Distance of the student to the teacher at the start: root mean square error of the outputs over the
            standard deviation of the teacher's outputs, on rows that were not trained on; or what `measure` returned.
        after: The same at the end; never more than `before`.
        epochs: Passes over the data, layer-wise and end to end.
        restored: Layers whose exchange cost more than the budget.
    """

    before: float
    after: float
    epochs: tuple[int, int]
    restored: tuple[Restored, ...]

    def __str__(self) -> str:
        """Returns one line, and one per restored layer."""
        lines = [f"distance {self.before:.3g} -> {self.after:.3g} after {self.epochs[0]} + {self.epochs[1]} epochs"]
        lines += [f"restored: {r.layer} (its exchange cost {r.cost:.3g})" for r in self.restored]
        return "\n".join(lines)


def distill(
    student: keras.Model,
    teacher: keras.Model,
    data: Any,
    epochs: int = 5,
    *,
    layer_epochs: int | None = None,
    batch_size: int = 32,
    learning_rate: float | None = None,
    patience: int = 3,
    budget: float | None = None,
    measure: Callable[[Any], float] | None = None,
    seed: int = 0,
    verbose: int | str = "auto",
) -> tuple[Any, Distillation]:
    """Returns a copy of `student`, fine-tuned to return what `teacher` returns, and a report; neither is changed.

    First all layers whose activation differs learn, together, the outputs that they have in the teacher. Then the
    whole model learns the teacher's outputs by squared error (of the logarithms if they are probabilities). No labels
    are needed. Dropout and batch normalisation run as in prediction. A tenth of the rows is held out (none of fewer
    than ten), and the weights with the lowest loss on it are kept. What does not bring the student nearer, measured on
    the rows held out, is undone, so that it is never worse there than it was; if nothing does, a warning says so.

    Args:
        student: The changed model, usually from `replace_activations`.
        teacher: The original.
        data: Inputs: an array, or a list or dictionary of arrays.
        epochs: Largest number of end-to-end passes; 0 for none.
        layer_epochs: Largest number of layer-wise passes before; None for as many. They are skipped if the exchanged
            layers are in a nested or subclassed model.
        batch_size: Rows per step.
        learning_rate: Of Adam; it decays to 0 over the epochs along a cosine. None for 1e-3, or less in
            proportion if the distance is below 0.05 at the start; where that gains nothing, a tenth of it is tried.
        patience: Epochs without improvement after which training stops.
        budget: A layer whose exchange costs more gets its original activation back, and the end-to-end passes run once
            more. The cost is how much lower the distance is with the original activation. None for no limit.
        measure: The distance, lower is better, e.g. `lambda m: 1 - accuracy(m)`; None for the outputs' distance.
        seed: For the order of the rows.
        verbose: As in `fit`: "auto" or 1 for a progress bar, 0 for no output.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The two models do not have the same layers, or a number is out of range.
    """
    student, teacher = accept.model("student", student), accept.model("teacher", teacher)
    epochs = accept.whole("epochs", epochs)
    layer_epochs = epochs if layer_epochs is None else accept.whole("layer_epochs", layer_epochs)
    batch_size, patience = accept.whole("batch_size", batch_size, 1), accept.whole("patience", patience)
    learning_rate = None if learning_rate is None else accept.number("learning_rate", learning_rate, 0.0)
    budget = None if budget is None else accept.number("budget", budget, 0.0)
    measure = None if measure is None else accept.function("measure", measure)
    seed, verbose = accept.whole("seed", seed), _verbosity(verbose)
    exchanged = _exchanged(student, teacher)
    train = _Training(teacher, list(observe.batches(data, 10**9, teacher)), batch_size, patience, seed, verbose)
    if measure is None:
        sample = train.held_out()
        expected = _outputs(teacher, sample)

        def measure(model: Any) -> float:
            return _distance(_outputs(model, sample), expected)

    before = float(measure(student))
    new = rebuild(student, {})
    rates = (learning_rate,) if learning_rate is not None else _rates(before)
    done = [_gain(train.layers, new, layer_epochs, rates, measure), _gain(train.outputs, new, epochs, rates, measure)]
    restored: tuple[Restored, ...] = ()
    if budget is not None:
        new, restored = _roll_back(new, teacher, exchanged, budget, measure)
        if restored:
            done[1] += _gain(train.outputs, new, epochs, rates, measure)
    after = float(measure(new))
    if sum(done) and not after < before:
        warnings.warn(
            f"`distill` returns `{student.name}` as it was: no step brought it nearer to `{teacher.name}`. Received: "
            f"distance {before:.3g}. Use it as it is, or pass more rows, more epochs or a smaller learning_rate.",
            stacklevel=2,
        )
    return new, Distillation(before, after, (done[0], done[1]), restored)


def _rates(distance: float) -> tuple[float, float]:
    """Returns the step sizes to try for a student at this distance, NaN and infinity included."""
    rate = _STEP * min(1.0, distance / _SAFE_DISTANCE) if distance < _SAFE_DISTANCE else _STEP
    return rate, rate / 10.0


def _gain(
    stage: Callable[[Any, int, float], int],
    model: Any,
    epochs: int,
    rates: tuple[float, ...],
    measure: Callable[[Any], float],
) -> int:
    """Trains `model` at the first rate that lowers the distance, or leaves it as it is; returns the epochs it took."""
    if epochs == 0:
        return 0
    best, kept, done = float(measure(model)), model.get_weights(), 0
    for rate in rates:
        taken = stage(model, epochs, rate)
        done += taken
        if not taken or float(measure(model)) < best:
            return done
        model.set_weights(kept)
    return done


class _Towards(keras.Model):
    """Trains `model` to return the outputs of `goal`, which is not part of it and stays fixed."""

    def __init__(self, model: Any, goal: Any, losses: list[str]) -> None:
        super().__init__(name="towards")
        self.model = model
        self.losses_used = losses
        # Past Keras's tracking: the teacher's weights are neither trained nor saved here.
        object.__setattr__(self, "goal", goal)

    def call(self, inputs: Any) -> Any:
        """Returns the model's outputs, as in prediction."""
        return self.model(inputs, training=False)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """Returns the sum of the outputs' distances."""
        goals = keras.tree.flatten(self.goal(x, training=False))
        total = 0.0
        for kind, goal, made in zip(self.losses_used, goals, keras.tree.flatten(y_pred), strict=True):
            goal, made = ops.cast(ops.stop_gradient(goal), "float32"), ops.cast(made, "float32")
            if kind == "probabilities":
                # Where the teacher is sure, only logarithms still tell the classes apart.
                goal, made = (ops.log(ops.clip(one, _SMALLEST, 1.0)) for one in (goal, made))
            spread = ops.mean(ops.square(goal - ops.mean(goal, axis=0))) + 1e-6
            total += ops.mean(ops.square(made - goal)) / spread
        return total


@dataclass(frozen=True, slots=True)
class _Training:
    teacher: Any
    rows: list[Any]
    batch_size: int
    patience: int
    seed: int
    verbose: int | str

    def layers(self, student: Any, epochs: int, rate: float) -> int:
        pairs = _features(student, self.teacher)
        if not pairs:
            return 0
        features, goals = (list(column) for column in zip(*pairs, strict=True))
        mine, goal = keras.Model(student.inputs, features), keras.Model(self.teacher.inputs, goals)
        return self._fit(mine, goal, ["values"] * len(pairs), epochs, rate)

    def outputs(self, student: Any, epochs: int, rate: float) -> int:
        first = keras.tree.flatten(self.teacher(self.rows[0], training=False))
        return self._fit(student, self.teacher, [_kind(ops.convert_to_numpy(one)) for one in first], epochs, rate)

    def split(self) -> tuple[Any, Any, Any]:
        """Returns all rows, and the numbers of those held out and of those trained on."""
        rows = keras.tree.map_structure(lambda *parts: np.concatenate(parts), *self.rows)
        count = len(keras.tree.flatten(rows)[0])
        order = np.random.default_rng(self.seed).permutation(count)
        return rows, order[: count // 10], order[count // 10 :]

    def held_out(self) -> list[Any]:
        """Returns the rows that the distance is measured on, in batches."""
        rows, held, kept = self.split()
        numbers = (held if len(held) else kept)[:_MEASURED_ROWS]
        return [batch for (batch,) in _Batches(rows, numbers, self.batch_size, None)]

    def _fit(self, model: Any, goal: Any, losses: list[str], epochs: int, rate: float) -> int:
        rows, held, kept = self.split()
        steps = max(1, -(-len(kept) // self.batch_size) * epochs)
        towards = _Towards(model, goal, losses)
        towards.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, steps)))
        validation = _Batches(rows, held, self.batch_size, None) if len(held) else None
        stop = keras.callbacks.EarlyStopping(
            monitor="val_loss" if len(held) else "loss", patience=self.patience, restore_best_weights=True
        )
        history = towards.fit(
            _Batches(rows, kept, self.batch_size, self.seed),
            validation_data=validation,
            epochs=epochs,
            callbacks=[stop],
            verbose=self.verbose,
        )
        return len(history.epoch)


class _Batches(keras.utils.PyDataset):
    """Batches of inputs in an order that depends only on the seed."""

    def __init__(self, rows: Any, order: Any, size: int, seed: int | None) -> None:
        super().__init__()
        self.rows, self.order, self.size = rows, np.asarray(order), size
        self.random = None if seed is None else np.random.default_rng(seed)

    def __len__(self) -> int:
        return -(-len(self.order) // self.size)

    def __getitem__(self, index: int) -> Any:
        chosen = self.order[index * self.size : (index + 1) * self.size]
        batch = keras.tree.map_structure(lambda array: array[chosen], self.rows)
        return (batch,)

    def on_epoch_end(self) -> None:
        """Shuffles for the next epoch."""
        if self.random is not None:
            self.random.shuffle(self.order)


def _verbosity(verbose: Any) -> int | str:
    return "auto" if isinstance(verbose, str) and verbose == "auto" else accept.whole("verbose", verbose)


def _exchanged(student: Any, teacher: Any) -> list[tuple[int, Site]]:
    """Returns index and teacher's site of each activation that differs."""
    mine, theirs = sites(student), sites(teacher)
    if [s.attribute for s in mine] != [s.attribute for s in theirs]:
        raise ValueError(
            f"Student and teacher must have the same layers. Received: `{student.name}` with {len(mine)} activations "
            f"and `{teacher.name}` with {len(theirs)}. Make the student with replace_activations(teacher, ...)."
        )
    pairs = enumerate(zip(mine, theirs, strict=True))
    return [(i, theirs) for i, (mine, theirs) in pairs if mine.activation != theirs.activation]


def _features(student: Any, teacher: Any) -> list[tuple[Any, Any]]:
    """Returns the outputs, in student and teacher, of the model's own layers with an exchanged activation."""
    if not is_functional(student) and not isinstance(student, keras.Sequential):
        return []
    changed = {site.path.split("/")[0] for _, site in _exchanged(student, teacher)}
    pairs = []
    for mine, theirs in zip(student.layers, teacher.layers, strict=True):
        once = all(len(private.calls_of(layer) or ()) == 1 for layer in (mine, theirs))
        if mine.name in changed and once and isinstance(mine.output, keras.KerasTensor):
            pairs.append((mine.output, theirs.output))
    return pairs


def _roll_back(
    new: Any, teacher: Any, exchanged: list[tuple[int, Site]], budget: float, measure: Callable[[Any], float]
) -> tuple[Any, tuple[Restored, ...]]:
    distance = float(measure(new))
    costs = [(i, site, distance - float(measure(_with_original(new, [(i, site)])))) for i, site in exchanged]
    over = [(i, site, cost) for i, site, cost in costs if cost > budget]
    if not over:
        return new, ()
    back = _with_original(new, [(i, site) for i, site, _ in over])
    return back, tuple(Restored(site.label, cost) for _, site, cost in over)


def _with_original(student: Any, places: list[tuple[int, Site]]) -> Any:
    mine = sites(student)
    return rebuild(student, {(id(mine[i].owner), mine[i].attribute): _original(site) for i, site in places})


def _original(site: Site) -> Callable[[Any], Any]:
    def make(_: Any) -> Any:
        if not site.attribute:
            return copied_activation(site.owner)
        held = function_at(site)
        return copied_activation(held) if isinstance(held, keras.layers.Layer) else held

    return make


def _outputs(model: Any, batches: list[Any]) -> list[Any]:
    # Called, not predicted: predicting would leave a traced function in a model that is not ours.
    made = [keras.tree.flatten(model(batch, training=False)) for batch in batches]
    columns = zip(*made, strict=True)
    return [np.concatenate([ops.convert_to_numpy(ops.cast(one, "float32")) for one in column]) for column in columns]


def _distance(made: list[Any], expected: list[Any]) -> float:
    """Returns the root mean square error over the standard deviation of what is expected; the max over the outputs."""
    distances = []
    for a, b in zip(made, expected, strict=True):
        spread = float(np.sqrt(np.mean((b - b.mean(axis=0)) ** 2)))
        distances.append(float(np.sqrt(np.mean((a - b) ** 2))) / max(spread, 1e-12))
    return max(distances)


def _kind(values: Any) -> str:
    """Whether a teacher's outputs are probabilities over the last axis."""
    sums = values.sum(axis=-1)
    return "probabilities" if values.shape[-1] > 1 and values.min() >= 0.0 and np.allclose(sums, 1.0, atol=1e-3) else ""
