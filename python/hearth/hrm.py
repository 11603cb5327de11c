"""Reasoning models: small networks that refine an answer segment by segment.

    model = ht.hrm.load("models/sudoku.safetensors")
    solution = model.solve("53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79")
    print(solution)                                     # the grid
    [segment.q_halt for segment in solution.segments]   # how sure the model was after each segment

    puzzles = ht.hrm.make_puzzles(1000, seed=1)
    run = ht.hrm.train(ht.hrm.config("sudoku", features=64), puzzles, steps=500)
    run.model.save("model.safetensors")

docs/hrm.md says what these models are.
"""

import json

import numpy as np

from . import _core, _sudoku
from ._core import _hrm
from ._core._hrm import Answer, Grid, Puzzle, Segment, Solution, load_puzzles, make_puzzles, save_puzzles
from ._progress import Bar, in_notebook


def config(name="sudoku", **changes):
    """A configuration (dictionary): "sudoku", "trm" or "reference" with changes. include/hearth/hrm.h describes each value."""
    values = json.loads(_hrm.config_from_name(name))
    for key in changes:
        if key not in values:
            raise _core.ValueError(f"[HrmConfig] there is no {key!r}; there are {', '.join(values)}")
    values.update(changes)
    _hrm.check_config(json.dumps(values))
    return values


def _as_json(values):
    return json.dumps(config() if values is None else values)


def _grids(puzzles):
    """What solve() was given as a list of grids, and whether it is one puzzle."""
    if isinstance(puzzles, (str, Grid, Puzzle)):
        return [_grid(puzzles)], True
    if not isinstance(puzzles, np.ndarray):
        puzzles = list(puzzles)
        if all(isinstance(puzzle, (str, Grid, Puzzle)) for puzzle in puzzles):
            return [_grid(puzzle) for puzzle in puzzles], False
        puzzles = np.asarray(puzzles)
    return ([Grid(puzzles)], True) if puzzles.size == 81 else ([Grid(puzzle) for puzzle in puzzles], False)


def _grid(puzzle):
    if isinstance(puzzle, Puzzle):
        return puzzle.clues
    return puzzle if isinstance(puzzle, Grid) else Grid(puzzle)


class Reasoner:
    """Runs a model on sequences of tokens, each for as many segments as it needs. Calls from several threads take turns."""

    def __init__(self, model):
        self.model = model
        self._native = _hrm.CoreReasoner(model._native)

    def run(self, tokens, puzzles=None, **options):
        """An Answer for each row of `tokens`, (sequences, length) or one sequence after the other.

        puzzles   a row of the table of puzzle vectors for each; None: row 0 for all
        options   most_segments, batch (sequences worked on at once), seconds (no segment begins after them),
                  done(sequence, tokens, q_halt) -> bool (None: where q_halt is positive),
                  on_segment(sequence, segment, tokens, q_halt)
        """
        flat = np.asarray(tokens, dtype=np.int32).ravel().tolist()
        rows = [] if puzzles is None else np.asarray(puzzles, dtype=np.int32).ravel().tolist()
        return self._native.run(flat, rows, {name: value for name, value in options.items() if value is not None})


class Model:
    """A reasoning model in memory. Made anew, it knows nothing; the weights come from ht.manual_seed's numbers."""

    def __init__(self, config=None, device=None):
        self._hold(_hrm.CoreModel.make(_as_json(config), device))

    def _hold(self, native):
        self._native = native
        self._reasoner = Reasoner(self)
        return self

    @property
    def config(self):
        return json.loads(self._native.config())

    @property
    def parameters(self):
        """How many numbers were learned."""
        return self._native.parameters()

    def state_dict(self):
        """The weights under the names of the reference implementation."""
        return self._native.state_dict()

    def save(self, path, dtype="bfloat16", notes=None):
        """A safetensors file with the configuration, and `notes` (texts by name), in its metadata."""
        self._native.save(str(path), dtype, notes or {})

    def solve(self, puzzles, segments=32, attempts=8, patience=6, batch=256, on_segment=None):
        """A Solution for a Sudoku, or a list of them for several.

        puzzles      a text of digits and '.', a Grid, a Puzzle or an array of digits; or several
        segments     of an attempt at most
        attempts     a puzzle that resists is tried again with its digits renamed
        patience     segments without a change after which an attempt ends; 0: never
        batch        puzzles worked on at once
        on_segment   function of (number of the puzzle, segment, Grid, q_halt), called in the first attempt

        A puzzle with conflicting clues or without a solution is a ValueError.
        """
        grids, single = _grids(puzzles)
        solutions = self._reasoner._native.solve(grids, segments, attempts, patience, batch, on_segment)
        return solutions[0] if single else solutions

    def __repr__(self):
        values = self.config
        return (
            f"Model({self.parameters / 1e6:.2f} M parameters, {values['features']} features, {values['mixing']}, "
            f"{values['h_cycles']} x {values['l_cycles']} cycles)"
        )


def _wrapped(native):
    return Model.__new__(Model)._hold(native)


def load(path="models/sudoku.safetensors", device=None):
    """A model from a file of save() or of `hearth hrm train`."""
    return _wrapped(_hrm.CoreModel.load(str(path), device))


def import_checkpoint(path, length=0, heads=0, h_cycles=2, l_cycles=2, device=None):
    """A model from a checkpoint of the reference implementation, a file of torch.save() of which nothing is run. 0: what goes
    with the vocabulary or the sizes."""
    return _wrapped(_hrm.CoreModel.import_checkpoint(str(path), length, heads, h_cycles, l_cycles, device))


def solve(puzzles, model="models/sudoku.safetensors", **options):
    """Model.solve() with a model, or the file of one."""
    return (model if isinstance(model, Model) else load(model)).solve(puzzles, **options)


class TrainingRun:
    """What train() came to: model (averaged weights), ending ("finished", "interrupted" or "stopped"), steps, resumed_from,
    seconds, lines (dictionaries: step, loss, accuracy, exact, ...) and evaluations (step, share solved by kind of puzzle)."""

    def __init__(self, result):
        for name, value in result.items():
            setattr(self, name, value)
        self.model = _wrapped(result["model"])

    def __repr__(self):
        return f"TrainingRun({self.ending} after {self.steps} steps, {self.seconds:.1f} s)"


def train(config=None, puzzles=10000, *, evaluation_puzzles=0, on_line=None, device=None, **options):
    """Trains a model on Sudoku puzzles, each rearranged anew whenever it is used.

    config               of config(); None: config("sudoku")
    puzzles              a list of Puzzle, or how many to make of all kinds
    evaluation_puzzles   fresh puzzles of each of four kinds that are tried on the way and at the end; 0: none
    on_line              function of a dictionary, called every log_every steps; returning False ends the run
    options              steps, minutes (one limit is needed), batch, learning_rate, warmup, last_rate, beta1, beta2,
                         weight_decay, puzzle_learning_rate, puzzle_weight_decay, ema_decay, seed, log_every, evaluate_every,
                         folder (for checkpoints, log, plot and model), checkpoint_minutes, keep_checkpoints,
                         resume ("never", "automatic", "required"), progress; include/hearth/hrm_train.h describes them

    Ctrl-C finishes the step, saves a checkpoint where there is a folder, and returns with the ending "interrupted".
    """
    options = {name: value for name, value in options.items() if value is not None}
    if "folder" in options:
        options["folder"] = str(options["folder"])
    if isinstance(puzzles, int):
        puzzles = make_puzzles(puzzles, options.get("seed", 0))
    bar = None
    if in_notebook() and options.get("progress", True):
        options["progress"] = False
        bar = Bar("training", options.get("steps", 0))

    def each(line):
        if bar is not None:
            bar.update(line["step"], f"loss {line['loss']:.4f}, {100 * line['exact']:.1f} % exact")
        return on_line is None or on_line(line) is not False

    run = TrainingRun(_hrm.train(_as_json(config), list(puzzles), evaluation_puzzles, device, each, options))
    if bar is not None:
        bar.close()
    return run
