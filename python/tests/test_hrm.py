"""Reasoning models: Sudoku grids and puzzles, answers segment by segment, training."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import hearth as ht

EASY = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
EASY_SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
CONFIG = ht.hrm.config("sudoku", features=32, unit_features=16, l_layers=1, h_cycles=1, l_cycles=1, most_segments=4, precision="f32")


@pytest.fixture(scope="module")
def nearly_full():
    """Puzzles that lack a few digits only, which a model learns in seconds."""
    return ht.hrm.make_puzzles(300, seed=1, making="dig", clues=(70, 76))


@pytest.fixture(scope="module")
def run(nearly_full):
    lines = []
    run = ht.hrm.train(
        CONFIG, nearly_full, steps=250, batch=8, learning_rate=3e-3, warmup=10, ema_decay=0.9, log_every=25,
        on_line=lines.append, progress=False,
    )  # fmt: skip
    assert lines == run.lines
    return run


# ---- grids and puzzles


def test_grid():
    grid = ht.hrm.Grid(EASY)
    assert grid.text == EASY and repr(grid) == f"Grid('{EASY}')" and grid.clues == 30 and not grid.is_solution
    assert grid == ht.hrm.Grid(str(grid)) == ht.hrm.Grid(np.asarray(grid)) == ht.hrm.Grid(np.asarray(grid).tolist())
    assert hash(grid) == hash(ht.hrm.Grid(EASY)) and grid != ht.hrm.Grid(EASY_SOLUTION) and grid != EASY
    assert str(grid).splitlines()[0] == "5 3 . | . 7 . | . . ." and len(str(grid).splitlines()) == 11
    array = np.asarray(grid)
    assert array.shape == (9, 9) and array.dtype == np.uint8 and array[0, 4] == 7 and grid.cells[4] == 7
    assert ht.hrm.Grid(EASY_SOLUTION).is_solution and grid.conflict() is None
    assert ht.hrm.Grid("55" + "." * 79).conflict() == (0, 1)
    html = ht.hrm.Grid("55" + "." * 79)._repr_html_()
    assert html.count("<td") == 81 and html.count("<b>5</b>") == 2 and html.count("#c00") == 2


@pytest.mark.parametrize(
    "cells, message",
    [
        ("123", "81 cells, this text has 3"),
        ("x" * 81, "character 1 is 'x'"),
        ("５" * 81, "byte 0xef"),
        ([1, 2, 3], "81 cells, got 3"),
        (np.full((9, 9), 10), "cell 1 cannot be 10"),
        (np.full(81, -1), "cell 1 cannot be -1"),
        (np.full(81, 0.5), "digits are needed"),
        (["x"] * 81, "digits are needed"),
    ],
)
def test_grids_that_are_none(cells, message):
    with pytest.raises(ht.ValueError, match=message):
        ht.hrm.Grid(cells)


def test_puzzles():
    puzzles = ht.hrm.make_puzzles(20, seed=3)
    assert [p.clues.text for p in puzzles] == [p.clues.text for p in ht.hrm.make_puzzles(20, seed=3)]
    assert [p.clues.text for p in puzzles] != [p.clues.text for p in ht.hrm.make_puzzles(20, seed=4)]
    for puzzle in puzzles:
        clues, solution = np.asarray(puzzle.clues), np.asarray(puzzle.solution)
        assert puzzle.solution.is_solution and ((clues == 0) | (clues == solution)).all()
        again = ht.hrm.Puzzle(puzzle.clues)
        assert again.solution == puzzle.solution and again.rating == puzzle.rating
    assert max(p.rating for p in puzzles) > 0
    assert all(26 <= p.clues.clues <= 28 for p in ht.hrm.make_puzzles(5, making="dig", clues=(26, 28)))
    known = ht.hrm.Puzzle(EASY)
    assert known.solution.text == EASY_SOLUTION and known.rating == 0 and "rating=0" in repr(known)
    assert known._repr_html_().count("<td") == 81
    assert ht.hrm.make_puzzles(0) == []


def test_puzzles_in_files(tmp_path):
    puzzles = ht.hrm.make_puzzles(5)
    ht.hrm.save_puzzles(tmp_path / "puzzles.csv", puzzles)
    loaded = ht.hrm.load_puzzles(tmp_path / "puzzles.csv")
    assert [(p.clues, p.solution, p.rating) for p in loaded] == [(p.clues, p.solution, p.rating) for p in puzzles]
    (tmp_path / "bad.csv").write_text(f"question,answer\n{EASY},{EASY}\n")
    with pytest.raises(ht.FormatError, match="puzzle 1: the answer is not a filled grid"):
        ht.hrm.load_puzzles(tmp_path / "bad.csv")
    with pytest.raises(ht.FileError):
        ht.hrm.load_puzzles(tmp_path / "none.csv")


def test_puzzles_that_are_none():
    with pytest.raises(ht.ValueError, match="several solutions"):
        ht.hrm.Puzzle("." * 81)
    with pytest.raises(ht.ValueError, match="row 1 column 1 and row 1 column 2"):
        ht.hrm.Puzzle("55" + "." * 79)
    for options in (dict(making="magic"), dict(making="dig", clues=(90, 95)), dict(count=-1)):
        with pytest.raises(ht.ValueError):
            ht.hrm.make_puzzles(**{"count": 1, **options})


# ---- models


def test_config():
    values = ht.hrm.config("reference")
    assert values["features"] == 512 and values["mixing"] == "attention" and ht.hrm.config()["features"] == 256
    assert ht.hrm.Model(CONFIG).config == CONFIG
    with pytest.raises(ht.ValueError, match="there is no 'speed'"):
        ht.hrm.config(speed=3)
    with pytest.raises(ht.ValueError, match="'huge' is not known"):
        ht.hrm.config("huge")
    with pytest.raises(ht.ValueError, match="features must lie in"):
        ht.hrm.config(features=0)
    with pytest.raises(ht.FormatError, match='"features" cannot be "many"'):
        ht.hrm.config(features="many")


def test_parameters_are_those_of_the_reference():
    model = ht.hrm.Model(ht.hrm.config("reference"))
    assert model.parameters == 27_275_266
    assert model.state_dict()["H_level.layers.0.self_attn.qkv_proj.weight"].shape == (1536, 512)


def test_a_file_holds_the_model(tmp_path, run, nearly_full):
    run.model.save(tmp_path / "model.safetensors", dtype="float32", notes={"made": "here"})
    loaded = ht.hrm.load(tmp_path / "model.safetensors")
    assert loaded.config == run.model.config and loaded.parameters == run.model.parameters
    for name, value in run.model.state_dict().items():
        np.testing.assert_array_equal(loaded.state_dict()[name].numpy(), value.numpy())
    mine, theirs = loaded.solve(nearly_full[:5]), run.model.solve(nearly_full[:5])
    assert [s.grid for s in mine] == [s.grid for s in theirs]
    ht.save({"x": ht.ones(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ht.FormatError, match="not a reasoning model"):
        ht.hrm.load(tmp_path / "other.safetensors")
    with pytest.raises(ht.FileError):
        ht.hrm.load(tmp_path / "none.safetensors")


def test_the_shipped_model():
    path = Path(__file__).resolve().parents[2] / "models" / "sudoku.safetensors"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    solution = ht.hrm.solve(EASY, model=path)
    assert solution.solved and solution.grid.text == EASY_SOLUTION


# ---- solving


def test_solve_one(run, nearly_full):
    puzzle = nearly_full[0]
    seen = []
    solution = run.model.solve(puzzle, segments=6, attempts=2, on_segment=lambda *given: seen.append(given))
    assert solution.puzzle == puzzle.clues and 1 <= len(solution.segments) <= 6
    assert solution.segment_count >= len(solution.segments) and 1 <= solution.attempts <= 2
    assert [(0, i + 1, s.grid, s.q_halt) for i, s in enumerate(solution.segments)] == seen
    for segment in solution.segments:
        assert segment.sure == pytest.approx(1 / (1 + np.exp(-segment.q_halt))) and "q_halt" in repr(segment)
    if solution.solved:
        assert solution.grid == puzzle.solution and "solved after" in repr(solution)
    assert str(solution).startswith(str(solution.grid)) and solution._repr_html_().count("<td") == 81


def test_the_model_has_learned(run, nearly_full):
    """What was trained for seconds solves puzzles it has not seen; what was not trained does not."""
    fresh = ht.hrm.make_puzzles(40, seed=99, making="dig", clues=(74, 76))
    solutions = run.model.solve(fresh, segments=8)
    solved = [s for s in solutions if s.solved]
    assert len(solved) >= 20
    assert all(s.grid == p.solution for s, p in zip(solutions, fresh) if s.solved)
    assert sum(s.solved for s in ht.hrm.Model(CONFIG).solve(fresh, segments=2, attempts=1)) == 0


def test_ways_to_give_puzzles(run, nearly_full):
    puzzles = nearly_full[:3]
    expected = [s.grid for s in run.model.solve(puzzles, attempts=1)]
    texts, grids = [p.clues.text for p in puzzles], [p.clues for p in puzzles]
    arrays = np.stack([np.asarray(grid) for grid in grids])
    for given in (texts, grids, arrays, arrays.reshape(3, 81), arrays.tolist(), iter(texts)):
        assert [s.grid for s in run.model.solve(given, attempts=1)] == expected
    for one in (texts[0], grids[0], puzzles[0], arrays[0], arrays[0].tolist(), arrays[0].ravel()):
        assert run.model.solve(one, attempts=1).grid == expected[0]
    assert run.model.solve([]) == [] and len(run.model.solve([texts[0]])) == 1
    assert ht.hrm.solve(texts[0], model=run.model, attempts=1).grid == expected[0]


def test_puzzles_that_cannot_be_solved(run):
    with pytest.raises(ht.ValueError, match="digit 5 twice"):
        run.model.solve("55" + "." * 79)
    with pytest.raises(ht.ValueError, match="no solution"):
        run.model.solve("1........2........3........4........5........6........7........8................9")
    with pytest.raises(ht.ValueError, match="must be positive"):
        run.model.solve(EASY, segments=0)
    with pytest.raises(TypeError):
        run.model.solve(EASY, speed=3)
    with pytest.raises(ht.ValueError, match="not one for Sudoku"):
        ht.hrm.Model(ht.hrm.config("trm", features=16, heads=2, length=20, precision="f32")).solve(EASY)
    with pytest.raises(RuntimeError, match="from the callback"):

        def fail(*given):
            raise RuntimeError("from the callback")

        run.model.solve(EASY, on_segment=fail)
    assert run.model.solve(EASY, segments=1).segments  # still works


def test_reasoner_runs_sequences_of_any_kind():
    ht.manual_seed(5)
    model = ht.hrm.Model(ht.hrm.config("trm", features=16, heads=2, prefix=2, puzzles=3, length=5, vocabulary=7, precision="f32"))
    reasoner = ht.hrm.Reasoner(model)
    tokens = np.arange(20).reshape(4, 5) % 7
    seen = []
    answers = reasoner.run(
        tokens, puzzles=[0, 1, 2, 0], most_segments=3, batch=3,
        done=lambda sequence, tokens, q_halt: sequence == 1, on_segment=lambda *given: seen.append(given),
    )  # fmt: skip
    assert [a.segments for a in answers] == [3, 1, 3, 3] and len(seen) == 10
    assert all(len(a.tokens) == 5 and max(a.tokens) < 7 for a in answers)
    assert answers[0].q_halt == next(q for s, n, t, q in seen if (s, n) == (0, 3))
    first = next(a for a in answers if not a.halted or a.halted_segments >= 1)
    assert first.halted == (first.halted_segments > 0)
    assert reasoner.run([]) == []
    for wrong in (dict(tokens=[1, 2]), dict(tokens=[9] * 5), dict(tokens=[1] * 5, puzzles=[0, 0]), dict(tokens=[1] * 5, puzzles=[7])):
        with pytest.raises(ht.Error):
            reasoner.run(**wrong)
    with pytest.raises(ht.ValueError, match="there is no option 'speed'"):
        reasoner.run(tokens, speed=1)
    with pytest.raises(TypeError, match="batch cannot be 'large'"):
        reasoner.run(tokens, batch="large")


def test_threads_take_turns(run, nearly_full):
    expected = [s.grid for s in run.model.solve(nearly_full[:8], attempts=1)]
    results = {}

    def work(number):
        results[number] = [s.grid for s in run.model.solve(nearly_full[:8], attempts=1, on_segment=lambda *given: None)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {number: expected for number in range(4)}


# ---- training


def test_training_repeats_and_goes_on(tmp_path, nearly_full):
    options = dict(batch=8, learning_rate=1e-3, warmup=2, log_every=2, seed=3, progress=False)
    whole = ht.hrm.train(CONFIG, nearly_full, steps=8, **options)
    assert whole.ending == "finished" and whole.steps == 8 and [line["step"] for line in whole.lines] == [2, 4, 6, 8]
    assert "finished after 8 steps" in repr(whole)
    folder = tmp_path / "run"
    stopped = ht.hrm.train(CONFIG, nearly_full, steps=8, folder=folder, on_line=lambda line: line["step"] < 4, **options)
    assert stopped.ending == "stopped" and stopped.steps == 4
    resumed = ht.hrm.train(CONFIG, nearly_full, steps=8, folder=folder, resume="required", evaluation_puzzles=1, **options)
    assert resumed.resumed_from == 4 and [line["loss"] for line in resumed.lines] == [line["loss"] for line in whole.lines]
    assert set(resumed.evaluations[0]) == {"step", "30-34 clues", "26-28 clues", "minimal", "hard"}
    assert ht.hrm.load(folder / "model.safetensors").parameters == whole.model.parameters
    with pytest.raises(ht.ValueError, match="checkpoints of another run"):
        ht.hrm.train(CONFIG, nearly_full, steps=8, folder=folder, **options)


def test_training_makes_its_puzzles():
    assert ht.hrm.train(CONFIG, 10, steps=1, batch=2, progress=False).steps == 1


def test_training_that_cannot_be(nearly_full):
    for options, message in (
        (dict(), "neither steps nor minutes"),
        (dict(steps=1, speed=3), "there is no option 'speed'"),
        (dict(steps=1, resume="maybe"), "resume cannot be 'maybe'"),
        (dict(steps=1, batch=0), "batch must be positive"),
    ):
        with pytest.raises(ht.ValueError, match=message):
            ht.hrm.train(CONFIG, nearly_full, progress=False, **options)
    with pytest.raises(ht.ValueError, match="no puzzles"):
        ht.hrm.train(CONFIG, [], steps=1)
    with pytest.raises(TypeError, match="steps cannot be 'many'"):
        ht.hrm.train(CONFIG, nearly_full, steps="many")
    with pytest.raises(ht.NonFiniteLoss) as error:
        ht.hrm.train(CONFIG, nearly_full, steps=50, batch=4, learning_rate=1e38, warmup=0, log_every=1, progress=False)
    assert error.value.step >= 1
    with pytest.raises(KeyError):  # of the callback

        def fail(line):
            raise KeyError("mine")

        ht.hrm.train(CONFIG, nearly_full, steps=4, batch=2, log_every=1, on_line=fail, progress=False)


def _interrupted(code):
    """What a program prints that gets SIGINT as soon as it says "begun"."""
    # A shell's background job ignores SIGINT, and so would its children.
    restore = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    config = f"config = {json.dumps(CONFIG)}\n".replace("true", "True").replace("false", "False")
    process = subprocess.Popen(
        [sys.executable, "-c", restore + "import hearth as ht\n" + config + code], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout.readline().strip() == "begun"
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    return output.strip()


def test_ctrl_c_ends_solving():
    code = """
model = ht.hrm.Model(config)
said = []
def each(*given):
    if not said: print("begun", flush=True)
    said.append(1)
try:
    model.solve(["." * 81] * 4, segments=10**6, patience=0, on_segment=each)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert _interrupted(code) == "interrupted"


def test_ctrl_c_ends_training_with_what_there_is():
    code = """
said = []
def each(line):
    if not said: print("begun", flush=True)
    said.append(1)
run = ht.hrm.train(config, 20, steps=10**6, batch=4, log_every=1, on_line=each, progress=False)
print(run.ending, run.model.solve("." * 81, segments=1, attempts=1).solved)
"""
    assert _interrupted(code) == "interrupted False"
