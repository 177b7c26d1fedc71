"""Make a target and EAGLE-3 drafters whose every output is known beforehand: no download, no training.

Target: a Llama whose blocks are the identity (``o_proj`` and ``down_proj`` are zero). The embedding of the token at place i of a fixed
cycle is a bank of cosine and sine pairs at angle 2*pi*k*i/n, so "next token" is a rotation R of the embedding, and ``lm_head`` holds
the rotated embeddings: the greedy next token is the next one of the cycle, always.

Drafter: ``fc`` averages the three hidden states it gets, attention is zero and the MLP adds (R - I) h, so the hidden state walks along
the same cycle. Its ``lm_head`` is right for a chosen share of the tokens and swapped in pairs for the others.

Runs with the engine's Python: ``python make_checkpoints.py FOLDER``.
"""

from __future__ import annotations

import json
import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

SPECIAL = ["<unk>", "<s>", "</s>", "<pad>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|> {{ m['content'] }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|> {% endif %}"
)
VOCABULARY = 4096
DRAFT_VOCABULARY = 3840


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama."""

    hidden: int = 512
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    intermediate: int = 1024
    head_dim: int = 64

    def config(self, layers: int) -> dict[str, object]:
        """What config.json says of these sizes."""
        return {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 3,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.intermediate,
            "max_position_embeddings": 8192,
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": self.heads,
            "num_hidden_layers": layers,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "vocab_size": VOCABULARY,
        }


TARGET = Shape()
OTHER_HIDDEN = Shape(hidden=256, heads=4, kv_heads=2, intermediate=512)


def seeded(seed: int) -> torch.Generator:
    """A generator of its own, so that every run makes the same checkpoints."""
    return torch.Generator().manual_seed(seed)


def cycle() -> torch.Tensor:
    """Place in the cycle -> token id."""
    ids = torch.arange(len(SPECIAL), VOCABULARY)
    return ids[torch.randperm(len(ids), generator=seeded(11))]


class Circle:
    """The cycle as embeddings of one hidden size."""

    def __init__(self, hidden: int) -> None:
        self.hidden = hidden
        self.order = cycle()
        self.count = len(self.order)
        pairs = (hidden - 2) // 2
        self.frequency = (torch.randperm(self.count // 2 - 1, generator=seeded(3))[:pairs] + 1).double()
        angle = 2 * math.pi * torch.arange(self.count).double()[:, None] * self.frequency[None, :] / self.count
        rows = torch.ones(self.count, hidden, dtype=torch.double)  # columns 0 and 1 are the constant 1
        rows[:, 2::2] = math.sqrt(2) * torch.cos(angle)
        rows[:, 3::2] = math.sqrt(2) * torch.sin(angle)
        self.embedding = torch.zeros(VOCABULARY, hidden, dtype=torch.double)
        self.embedding[self.order] = rows
        for index in range(len(SPECIAL)):  # special tokens: places of the cycle, all different
            self.embedding[index] = rows[(index * 97 + 13) % self.count]
        self.next = torch.roll(self.order, -1)

    def head(self) -> torch.Tensor:
        """``lm_head``: the right token's logit is about 32."""
        weights = torch.zeros(VOCABULARY, self.hidden, dtype=torch.double)
        weights[self.next] = self.embedding[self.order] * (32.0 / self.hidden)
        return weights

    def step(self) -> torch.Tensor:
        """R - I: one place further along the cycle."""
        angle = 2 * math.pi * self.frequency / self.count
        matrix = torch.zeros(self.hidden, self.hidden, dtype=torch.double)
        row = torch.arange(len(self.frequency)) * 2 + 2
        matrix[row, row] = torch.cos(angle) - 1
        matrix[row, row + 1] = -torch.sin(angle)
        matrix[row + 1, row] = torch.sin(angle)
        matrix[row + 1, row + 1] = torch.cos(angle) - 1
        return matrix


def write(folder: Path, tensors: dict[str, torch.Tensor], config: dict[str, object]) -> None:
    """One checkpoint folder."""
    folder.mkdir(parents=True, exist_ok=True)
    half = {
        name: tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def make_target(folder: Path, shape: Shape) -> None:
    """The target, its tokenizer and its generation defaults."""
    circle, random_weights = Circle(shape.hidden), seeded(0)

    def noise(rows: int) -> torch.Tensor:
        return torch.randn(rows, shape.hidden, generator=random_weights) * 0.02

    ones = torch.ones(shape.hidden)
    tensors = {"model.embed_tokens.weight": circle.embedding}
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        tensors |= {
            at + "input_layernorm.weight": ones.clone(),
            at + "post_attention_layernorm.weight": ones.clone(),
            at + "self_attn.q_proj.weight": noise(shape.heads * shape.head_dim),
            at + "self_attn.k_proj.weight": noise(shape.kv_heads * shape.head_dim),
            at + "self_attn.v_proj.weight": noise(shape.kv_heads * shape.head_dim),
            at + "self_attn.o_proj.weight": torch.zeros(shape.hidden, shape.heads * shape.head_dim),
            at + "mlp.gate_proj.weight": noise(shape.intermediate),
            at + "mlp.up_proj.weight": noise(shape.intermediate),
            at + "mlp.down_proj.weight": torch.zeros(shape.hidden, shape.intermediate),
        }
    tensors |= {"model.norm.weight": ones.clone(), "lm_head.weight": circle.head()}
    write(folder, tensors, {"architectures": ["LlamaForCausalLM"], **shape.config(shape.layers)})
    defaults = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3, "temperature": 1.0, "do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(defaults))
    make_tokenizer(folder)


def make_drafter(folder: Path, shape: Shape, right: float, seed: int) -> float:
    """A drafter that is right for about the share ``right`` of the cycle; the share it really is right for."""
    circle, generator = Circle(shape.hidden), seeded(seed)
    dropped_places = torch.randperm(circle.count, generator=seeded(5))[: VOCABULARY - DRAFT_VOCABULARY]
    dropped = set(circle.next[dropped_places].tolist())  # never predicted: they count as wrong
    keep = torch.tensor([token for token in range(VOCABULARY) if token not in dropped])
    places = [place for place in range(circle.count) if int(circle.next[place]) not in dropped]
    wrong = (round(circle.count * (1 - right)) - len(dropped)) // 2 * 2
    swapped = circle.next[
        [places[index] for index in torch.randperm(len(places), generator=generator)[:wrong].tolist()]
    ]
    head = circle.head()
    one, other = swapped[0::2], swapped[1::2]
    head[one], head[other] = head[other].clone(), head[one].clone()

    at_three = 3.0 / (1 + math.exp(-3.0))  # silu(3)
    gate = torch.zeros(shape.intermediate, shape.hidden, dtype=torch.double)
    gate[:, 0] = 3.0  # column 0 of the normed hidden state is 1
    up = torch.zeros(shape.intermediate, shape.hidden, dtype=torch.double)
    up[: shape.hidden] = torch.eye(shape.hidden, dtype=torch.double)
    down = torch.zeros(shape.hidden, shape.intermediate, dtype=torch.double)
    down[:, : shape.hidden] = circle.step() / at_three
    mean = torch.zeros(shape.hidden, 3 * shape.hidden)
    for chunk in range(3):
        mean[:, chunk * shape.hidden : (chunk + 1) * shape.hidden] = torch.eye(shape.hidden) / 3

    def noise(rows: int) -> torch.Tensor:
        return torch.randn(rows, 2 * shape.hidden, generator=generator) * 0.02

    ones = torch.ones(shape.hidden)
    tensors = {
        "fc.weight": mean,
        "midlayer.input_layernorm.weight": ones.clone(),
        "midlayer.hidden_norm.weight": ones.clone(),
        "midlayer.post_attention_layernorm.weight": ones.clone(),
        "midlayer.self_attn.q_proj.weight": noise(shape.heads * shape.head_dim),
        "midlayer.self_attn.k_proj.weight": noise(shape.kv_heads * shape.head_dim),
        "midlayer.self_attn.v_proj.weight": noise(shape.kv_heads * shape.head_dim),
        "midlayer.self_attn.o_proj.weight": torch.zeros(shape.hidden, shape.heads * shape.head_dim),
        "midlayer.mlp.gate_proj.weight": gate,
        "midlayer.mlp.up_proj.weight": up,
        "midlayer.mlp.down_proj.weight": down,
        "norm.weight": ones.clone(),
        "lm_head.weight": head[keep].contiguous(),
        "d2t": (keep - torch.arange(len(keep))).to(torch.int64),
        "t2d": torch.tensor([token not in dropped for token in range(VOCABULARY)]),
    }
    config = {"architectures": ["LlamaForCausalLMEagle3"], **shape.config(1), "draft_vocab_size": len(keep)}
    write(folder, tensors, config)
    return 1 - (len(dropped) + len(swapped)) / circle.count


def make_tokenizer(folder: Path) -> None:
    """One made-up word a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {text: index for index, text in enumerate(SPECIAL)}
    for word in words(VOCABULARY - len(SPECIAL)):
        vocabulary[word] = len(vocabulary)
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        "model_max_length": 8192,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    (folder / "special_tokens_map.json").write_text(json.dumps(names))


def words(count: int) -> list[str]:
    """Made-up words of one to three syllables."""
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    chance = random.Random(7)
    made: dict[str, None] = {}
    while len(made) < count:
        syllables = chance.choice([1, 2, 2, 2, 3])
        made["".join(chance.choice(consonants) + chance.choice(vowels) for _ in range(syllables))] = None
    return list(made)


def main() -> None:
    """Make everything into the folder named on the command line; ``info.json`` is written last."""
    folder = Path(sys.argv[1])
    make_target(folder / "target", TARGET)
    info: dict[str, object] = {"cycle": cycle().tolist()}
    for name, shape, right, seed in (
        ("drafter-a", TARGET, 0.50, 1),
        ("drafter-b", TARGET, 0.85, 2),
        ("drafter-bad", OTHER_HIDDEN, 0.85, 2),
    ):
        share = make_drafter(folder / name, shape, right, seed)
        info[name] = {"right": share, "accept_len": {k: sum(share**i for i in range(k + 1)) for k in (0, 1, 2, 3, 5)}}
    (folder / "info.json").write_text(json.dumps(info))


if __name__ == "__main__":
    main()
