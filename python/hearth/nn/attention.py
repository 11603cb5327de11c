"""Attention, and the transformer layers made of it; masks are PyTorch's: true in a bool mask means "may not attend"."""

from .. import _core
from . import functional as F
from .layers import Dropout, LayerNorm, Linear
from .module import Module, ModuleList, Parameter


def _allowed(mask):
    """PyTorch's mask as attention() has it."""
    return ~mask if mask.dtype == _core.bool_ else mask


def _join(first, second):
    """Two masks of "may attend" or of scores to add, as one."""
    if first is None or second is None:
        return second if first is None else first
    low = float("-inf")
    if first.dtype == second.dtype == _core.bool_:
        return first & second
    first, second = (_core.where(m, 0.0, low) if m.dtype == _core.bool_ else m for m in (first, second))
    return first + second


class MultiheadAttention(Module):
    """Attention with several heads. Returns the output and, if need_weights, the weights."""

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None,
        batch_first=False,
    ):
        super().__init__()
        if num_heads <= 0 or embed_dim % num_heads:
            raise _core.ValueError(f"[MultiheadAttention] heads must divide features: {num_heads}, {embed_dim}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.add_zero_attn = add_zero_attn
        kdim, vdim = kdim or embed_dim, vdim or embed_dim
        weight = _core.init.xavier_uniform
        if kdim == vdim == embed_dim:
            self.in_proj_weight = Parameter(weight((3 * embed_dim, embed_dim)))
        else:
            self.register_parameter("in_proj_weight", None)
            self.q_proj_weight = Parameter(weight((embed_dim, embed_dim)))
            self.k_proj_weight = Parameter(weight((embed_dim, kdim)))
            self.v_proj_weight = Parameter(weight((embed_dim, vdim)))
        self.register_parameter("in_proj_bias", Parameter(_core.zeros(3 * embed_dim)) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = Parameter(_core.zeros(embed_dim))
        learned = _core.init.xavier_normal
        self.register_parameter("bias_k", Parameter(learned((1, 1, embed_dim))) if add_bias_kv else None)
        self.register_parameter("bias_v", Parameter(learned((1, 1, embed_dim))) if add_bias_kv else None)

    def _project(self, x, part):
        size = self.embed_dim
        if self.in_proj_weight is not None:
            weight = self.in_proj_weight[part * size : (part + 1) * size]
        else:
            weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[part]
        bias = None if self.in_proj_bias is None else self.in_proj_bias[part * size : (part + 1) * size]
        return F.linear(x, weight, bias)

    def _extend(self, x, learned):
        more = [x]
        if learned is not None:
            more.append(learned.broadcast_to(x.size(0), 1, self.embed_dim).to(x.dtype))
        if self.add_zero_attn:
            with _core._DeviceScope(x.device):
                more.append(_core.zeros(x.size(0), 1, self.embed_dim, dtype=x.dtype))
        return x if len(more) == 1 else _core.concat(more, 1)

    def _heads(self, x):
        return x.reshape(x.size(0), x.size(1), self.num_heads, -1).transpose(1, 2)

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
        is_causal=False,
    ):
        batched = query.ndim == 3
        if not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        batch, queries, keys = query.size(0), query.size(1), key.size(1)

        mask = None
        if attn_mask is not None:
            mask = _allowed(attn_mask)
            if mask.ndim == 3:  # (batch * heads, queries, keys)
                mask = mask.reshape(batch, self.num_heads, queries, keys)
        if key_padding_mask is not None:
            mask = _join(mask, _allowed(key_padding_mask).reshape(batch, 1, 1, keys))
        q = self._heads(self._project(query, 0))
        k = self._heads(self._extend(self._project(key, 1), self.bias_k))
        v = self._heads(self._extend(self._project(value, 2), self.bias_v))
        extra = k.size(2) - keys  # keys put at the end are open to all queries
        causal = is_causal and attn_mask is None
        if causal and (extra or need_weights):  # by the mask: of the keys given, and for the weights as well
            with _core._DeviceScope(q.device):
                mask = _join(mask, _core.tril(_core.ones(queries, keys), keys - queries) != 0)
            causal = False
        if mask is not None and extra:
            mask = mask.broadcast_to(mask.shape[:-1] + (keys,))
            mask = _core.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, extra)], 1.0 if mask.dtype == _core.bool_ else 0.0)
        dropout = self.dropout if self.training else 0.0
        output = F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        output = self.out_proj(output.transpose(1, 2).reshape(batch, queries, self.embed_dim))

        weights = None
        if need_weights:
            scores = _core.full_precision(q @ k.mT) / (self.embed_dim // self.num_heads) ** 0.5
            if mask is not None:
                scores = _core.where(mask, scores, float("-inf")) if mask.dtype == _core.bool_ else scores + mask
            weights = _core.softmax(scores)
            weights = weights.mean(1) if average_attn_weights else weights
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights


class _GroupedAttention(Module):
    """Queries from x, keys and values from a context; keys may have fewer heads. x is (batch, length, features)."""

    def __init__(self, features, heads, key_heads=None, context_features=None, bias=True, causal=False, rope_base=None,
                 dropout=0.0):
        super().__init__()
        key_heads = key_heads or heads
        if heads <= 0 or features % heads or heads % key_heads:
            raise _core.ValueError(
                f"[{type(self).__name__}] heads must divide features, and key_heads heads: {features}, {heads}, {key_heads}"
            )
        size = features // heads
        self.heads, self.key_heads, self.causal, self.rope_base, self.dropout = heads, key_heads, causal, rope_base, dropout
        self.q_proj = Linear(features, heads * size, bias)
        self.k_proj = Linear(context_features or features, key_heads * size, bias)
        self.v_proj = Linear(context_features or features, key_heads * size, bias)
        self.out_proj = Linear(heads * size, features, bias)

    def attend(self, x, context, mask):
        def split(tensor, heads):
            return tensor.reshape(tensor.size(0), tensor.size(1), heads, -1).transpose(1, 2)

        q = split(self.q_proj(x), self.heads)
        k, v = split(self.k_proj(context), self.key_heads), split(self.v_proj(context), self.key_heads)
        if self.rope_base:
            q, k = _core.rope(q, self.rope_base), _core.rope(k, self.rope_base)
        y = F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0, self.causal)
        return self.out_proj(y.transpose(1, 2).reshape(x.size(0), x.size(1), -1))


class SelfAttention(_GroupedAttention):
    """Attention of a sequence to itself; in a bool mask true means "may attend"."""

    def forward(self, x, mask=None):
        return self.attend(x, x, mask)


class CrossAttention(_GroupedAttention):
    """Attention of a sequence to another; in a bool mask true means "may attend"."""

    def forward(self, x, context, mask=None):
        return self.attend(x, context, mask)


class _FeedForward:
    """What the layers of encoder and decoder share."""

    def _make(self, d_model, nhead, dim_feedforward, dropout, activation, eps, batch_first, norm_first, bias):
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward, bias), Linear(dim_feedforward, d_model, bias)
        self.norm1, self.norm2 = LayerNorm(d_model, eps, bias=bias), LayerNorm(d_model, eps, bias=bias)
        self.dropout, self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.norm_first = norm_first
        self.activation = {"relu": F.relu, "gelu": F.gelu}[activation] if isinstance(activation, str) else activation

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(Module, _FeedForward):
    """Self-attention and a feed-forward network, each with a residual and a norm."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True):
        super().__init__()
        self._make(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        def attend(x):
            return self.dropout1(self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0])

        x = src
        if self.norm_first:
            x = x + attend(self.norm1(x))
            return x + self.dropout2(self._feed_forward(self.norm2(x)))
        x = self.norm1(x + attend(x))
        return self.norm2(x + self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(Module, _FeedForward):
    """Self-attention, attention to the encoder's output, and a feed-forward network."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True):
        super().__init__()
        self._make(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.norm3, self.dropout3 = LayerNorm(d_model, layer_norm_eps, bias=bias), Dropout(dropout)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False):
        def attend(x):
            return self.dropout1(self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0])

        def look(x):
            return self.dropout2(self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask)[0])

        x = tgt
        if self.norm_first:
            x = x + attend(self.norm1(x))
            x = x + look(self.norm2(x))
            return x + self.dropout3(self._feed_forward(self.norm3(x)))
        x = self.norm1(x + attend(x))
        x = self.norm2(x + look(x))
        return self.norm3(x + self.dropout3(self._feed_forward(x)))


class _Stack(Module):
    def __init__(self, layer, num_layers, norm=None, enable_nested_tensor=True):
        """enable_nested_tensor, of PyTorch's faster ways, changes nothing."""
        super().__init__()
        import copy

        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.norm = norm


class TransformerEncoder(_Stack):
    """Several encoder layers, copies of the one given."""

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """Several decoder layers, copies of the one given."""

    def forward(self, tgt, memory, *masks, **named_masks):
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, **named_masks)
        return tgt if self.norm is None else self.norm(tgt)
