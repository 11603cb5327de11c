"""Tensors and modules in notebooks."""

from html import escape

from ._core import Tensor
from .nn.module import Module

_ROWS, _COLUMNS = 12, 12


def _tensor_html(self):
    head = f"<b>Tensor</b> {self.shape} {self.dtype.name} on {self.device}"
    if self.requires_grad:
        head += ", requires_grad"
    if self.ndim not in (1, 2) or self.dtype.name.startswith("q") or 0 in self.shape:
        return f"<div>{head}<pre>{escape(repr(self))}</pre></div>"
    rows = self.reshape(1, -1) if self.ndim == 1 else self
    height, width = rows.shape
    cells = rows[:_ROWS, :_COLUMNS].detach().tolist()
    lines = []
    for row in cells:
        shown = "".join(f"<td>{value:.4g}</td>" for value in row)
        lines.append("<tr>" + shown + ("<td>&hellip;</td>" if width > _COLUMNS else "") + "</tr>")
    more = f"<div>&hellip; {height} rows</div>" if height > _ROWS else ""
    return f"<div>{head}<table>{''.join(lines)}</table>{more}</div>"


def _module_html(self):
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{tensor.shape}</td><td>{tensor.dtype.name}</td><td>{tensor.numel():,}</td></tr>"
        for name, tensor in self.named_parameters()
    )
    return (
        f"<div><b>{type(self).__name__}</b>, {self.parameter_count():,} parameters"
        f"<table><tr><th>name</th><th>shape</th><th>dtype</th><th>elements</th></tr>{rows}</table></div>"
    )


Tensor._repr_html_ = _tensor_html
Module._repr_html_ = _module_html
