#!/usr/bin/env python3
"""Golden values of the reference implementation of HRM: activations, losses, gradients, three steps of training.

    git clone https://github.com/sapientinc/HRM
    make_hrm_golden.py HRM hrm.safetensors hrm_checkpoint.pt

The second file is what its training script saves of a tiny model.

Needs torch, pydantic and safetensors. flash-attn is replaced by torch's scaled_dot_product_attention, and the CUDA
kernel of adam-atan2 by its formula; everything else is the reference's own code, on the CPU.
"""
import math
import sys
import types

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

BATCH, LENGTH, VOCABULARY, PUZZLES = 4, 9, 11, 5
LEARNING_RATE, WEIGHT_DECAY, PUZZLE_RATE, PUZZLE_DECAY = 1e-2, 0.1, 2e-2, 0.3


def attention_in_torch(q, k, v, causal):
    moved = [x.transpose(1, 2) for x in (q, k, v)]
    return F.scaled_dot_product_attention(*moved, is_causal=causal).transpose(1, 2).contiguous()


def import_reference(path):
    sys.path.insert(0, path)
    sys.modules["flash_attn_interface"] = types.SimpleNamespace(flash_attn_func=attention_in_torch)
    from models.hrm.hrm_act_v1 import HierarchicalReasoningModel_ACTV1
    from models.losses import ACTLossHead
    from models.sparse_embedding import CastedSparseEmbeddingSignSGD_Distributed

    return HierarchicalReasoningModel_ACTV1, ACTLossHead, CastedSparseEmbeddingSignSGD_Distributed


class AdamATan2:
    def __init__(self, parameters):
        self.parameters, self.step_count = parameters, 0
        self.m = [torch.zeros_like(p) for p in parameters]
        self.v = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self, lr, decay, beta1=0.9, beta2=0.95):
        self.step_count += 1
        t = self.step_count
        for p, m, v in zip(self.parameters, self.m, self.v):
            p.mul_(1 - lr * decay)
            m.lerp_(p.grad, 1 - beta1)
            v.lerp_(p.grad.square(), 1 - beta2)
            denominator = v.sqrt() / math.sqrt(1 - beta2**t)
            p.sub_(lr / (1 - beta1**t) * torch.atan2(m, denominator))
            p.grad = None


def save_checkpoint(Model, LossHead, path):
    model = LossHead(Model(dict(
        batch_size=1, seq_len=9, puzzle_emb_ndim=8, num_puzzle_identifiers=3, vocab_size=7, H_cycles=2, L_cycles=2,
        H_layers=2, L_layers=1, hidden_size=8, expansion=4, num_heads=2, pos_encodings="rope", halt_max_steps=2,
        halt_exploration_prob=0.0)), "softmax_cross_entropy")
    # torch.compile, under which the reference trains, puts this in front of all names.
    torch.save({"_orig_mod." + name: value for name, value in model.state_dict().items()}, path)


def main(reference, output, checkpoint):
    Model, LossHead, SignSGD = import_reference(reference)
    save_checkpoint(Model, LossHead, checkpoint)
    torch.manual_seed(7)
    config = dict(batch_size=BATCH, seq_len=LENGTH, puzzle_emb_ndim=16, num_puzzle_identifiers=PUZZLES,
                  vocab_size=VOCABULARY, H_cycles=2, L_cycles=2, H_layers=2, L_layers=1, hidden_size=16, expansion=4,
                  num_heads=2, pos_encodings="rope", halt_max_steps=2, halt_exploration_prob=0.0,
                  forward_dtype="float32")
    model = Model(config)
    head = LossHead(model, "stablemax_cross_entropy")
    inner = model.inner
    with torch.no_grad():  # zeros would hide mistakes
        inner.puzzle_emb.weights.normal_(std=0.5)
        inner.q_head.weight.normal_(std=0.3)
        inner.q_head.bias.copy_(torch.tensor([-0.4, 0.3]))
    inner.puzzle_emb.local_weights = inner.puzzle_emb.local_weights.detach().requires_grad_()
    golden = {f"init.{name}": value.clone() for name, value in inner.state_dict().items()}

    activations, recording = [], True
    for level in (inner.L_level, inner.H_level):
        for layer in level.layers:
            layer.register_forward_hook(lambda _m, _i, y: activations.append(y.detach().clone()) if recording else None)

    optimizer = AdamATan2(list(model.parameters()))
    signs = SignSGD(inner.puzzle_emb.buffers(), world_size=1, lr=PUZZLE_RATE, weight_decay=PUZZLE_DECAY)
    carry = None
    for step in range(3):
        batch = {"inputs": torch.randint(0, VOCABULARY, (BATCH, LENGTH), dtype=torch.int32),
                 "labels": torch.randint(0, VOCABULARY, (BATCH, LENGTH), dtype=torch.int32),
                 "puzzle_identifiers": torch.tensor([1, 3, 1, step], dtype=torch.int32)}
        batch["labels"][0, :3] = -100
        for name, value in batch.items():
            golden[f"batch.{step}.{name}"] = value.clone()
        carry = carry or head.initial_carry(batch)
        carry, loss, metrics, outputs, _ = head(
            return_keys=["logits", "q_halt_logits", "q_continue_logits", "target_q_continue"], carry=carry, batch=batch)
        recording = False
        (loss / BATCH).backward()
        if step == 0:
            golden["logits"] = outputs["logits"].clone()
            golden["q_halt"] = outputs["q_halt_logits"].clone()
            golden["q_continue"] = outputs["q_continue_logits"].clone()
            golden["target_q_continue"] = outputs["target_q_continue"].clone()
            golden["z_H"] = carry.inner_carry.z_H.clone()
            golden["z_L"] = carry.inner_carry.z_L.clone()
            for name, parameter in inner.named_parameters():
                golden[f"grad.{name}"] = parameter.grad.clone()
            golden["grad.puzzle_vectors"] = inner.puzzle_emb.local_weights.grad.clone()
        golden[f"loss.{step}"] = (loss / BATCH).detach().to(torch.float32)
        golden[f"token_loss.{step}"] = (metrics["lm_loss"] / BATCH).to(torch.float32)
        golden[f"halted.{step}"] = carry.halted.to(torch.int32)
        golden[f"steps.{step}"] = carry.steps.to(torch.int32)
        signs.step()
        inner.puzzle_emb.local_weights.grad = None
        optimizer.step(LEARNING_RATE, WEIGHT_DECAY)
    # The first forward pass of the first step; the second is the target's.
    for i, value in enumerate(activations[: len(activations) // 2]):
        golden[f"activation.{i:02}"] = value
    for name, value in inner.state_dict().items():
        golden[f"after.{name}"] = value.clone()
    save_file({name: value.detach().contiguous() for name, value in golden.items()}, output)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
