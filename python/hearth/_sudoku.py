"""Sudoku grids as text, as arrays and in notebooks."""

import numpy as np

from ._core._hrm import Grid, Puzzle, Segment, Solution


def _array(self, dtype=None, copy=None):
    return np.array(self.cells, dtype=dtype or np.uint8).reshape(9, 9)


def _drawing(self):
    lines = []
    for row in range(9):
        if row in (3, 6):
            lines.append("------+-------+------")
        digits = [str(digit) if digit else "." for digit in self.cells[9 * row : 9 * row + 9]]
        lines.append(" | ".join(" ".join(digits[part : part + 3]) for part in (0, 3, 6)))
    return "\n".join(lines)


def _table(grid, clues):
    """HTML: clues in bold, digits that conflict with another in red."""
    cells, given = _array(grid), _array(clues)
    rows = ""
    for row in range(9):
        rows += "<tr>"
        for column in range(9):
            digit = cells[row, column]
            box = cells[row // 3 * 3 : row // 3 * 3 + 3, column // 3 * 3 : column // 3 * 3 + 3]
            twice = digit and max((part == digit).sum() for part in (cells[row], cells[:, column], box)) > 1
            style = "border: 1px solid #ccc; width: 1.6em; text-align: center;"
            style += "border-top: 2px solid #444;" if row % 3 == 0 else ""
            style += "border-left: 2px solid #444;" if column % 3 == 0 else ""
            style += "border-bottom: 2px solid #444;" if row == 8 else ""
            style += "border-right: 2px solid #444;" if column == 8 else ""
            style += "color: #c00;" if twice else "" if given[row, column] else "color: #06c;"
            text = f"<b>{digit}</b>" if given[row, column] else digit or ""
            rows += f"<td style='{style}'>{text}</td>"
        rows += "</tr>"
    return f"<table style='border-collapse: collapse'>{rows}</table>"


def _solution_text(self):
    text = "solved" if self.solved else "not solved"
    text += f" after {self.segment_count} segment{'' if self.segment_count == 1 else 's'}"
    return text + (f" in {self.attempts} attempts" if self.attempts > 1 else "")


Grid.__array__ = _array
Grid.__str__ = _drawing
Grid.__repr__ = lambda self: f"Grid({self.text!r})"
Grid._repr_html_ = lambda self: _table(self, self)
Puzzle.__repr__ = lambda self: f"Puzzle({self.clues.text!r}, rating={self.rating})"
Puzzle.__str__ = lambda self: f"{self.clues}\nrating {self.rating}"
Puzzle._repr_html_ = lambda self: _table(self.clues, self.clues) + f"<div>rating {self.rating}</div>"
Segment.__repr__ = lambda self: f"Segment({self.grid.text!r}, q_halt={self.q_halt:.3f})"
Solution.__repr__ = lambda self: f"Solution({self.grid.text!r}, {_solution_text(self)})"
Solution.__str__ = lambda self: f"{self.grid}\n{_solution_text(self)}"
Solution._repr_html_ = lambda self: _table(self.grid, self.puzzle) + f"<div>{_solution_text(self)}</div>"
