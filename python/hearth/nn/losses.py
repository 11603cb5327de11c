"""Losses as modules."""

from . import functional as F
from .module import Module


class _Loss(Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def extra_repr(self):
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items() if value is not None)


def _loss(name, function, **defaults):
    class Loss(_Loss):
        def __init__(self, *positional, **options):
            if positional and "weight" in defaults and "weight" not in options:  # in PyTorch what comes behind it is obsolete
                options, positional = {"weight": positional[0], **options}, positional[1:]
            if positional:
                raise TypeError(f"{name} takes its options by name: {', '.join(defaults)}")
            unknown = set(options) - set(defaults)
            if unknown:
                raise TypeError(f"{name} has no option {sorted(unknown)}; it has {', '.join(defaults)}")
            super().__init__(**{**defaults, **options})

        def forward(self, *inputs):
            return function(*inputs, **self.options)

    Loss.__name__ = Loss.__qualname__ = name
    Loss.__doc__ = function.__doc__
    return Loss


MSELoss = _loss("MSELoss", F.mse_loss, reduction="mean")
L1Loss = _loss("L1Loss", F.l1_loss, reduction="mean")
SmoothL1Loss = _loss("SmoothL1Loss", F.smooth_l1_loss, reduction="mean", beta=1.0)
HuberLoss = _loss("HuberLoss", F.huber_loss, reduction="mean", delta=1.0)
BCELoss = _loss("BCELoss", F.binary_cross_entropy, reduction="mean")
BCEWithLogitsLoss = _loss(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, weight=None, reduction="mean", pos_weight=None
)
NLLLoss = _loss("NLLLoss", F.nll_loss, weight=None, ignore_index=-100, reduction="mean")
CrossEntropyLoss = _loss(
    "CrossEntropyLoss", F.cross_entropy, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
)
KLDivLoss = _loss("KLDivLoss", F.kl_div, reduction="mean", log_target=False)
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", F.cosine_embedding_loss, margin=0.0, reduction="mean")
TripletMarginLoss = _loss("TripletMarginLoss", F.triplet_margin_loss, margin=1.0, p=2.0, reduction="mean")
