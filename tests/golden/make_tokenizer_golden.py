#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/: small tokenizers that together use what tokenizer.json and SentencePiece models can
say, and golden.json, what the reference packages (tokenizers, sentencepiece, tiktoken) make of some texts with them and
with the real vocabularies under ../shared.

  make_tokenizer_golden.py <shared> [--train]    without --train the small tokenizers are left as they are
"""
import base64
import json
import os
import pathlib
import sys

import sentencepiece
import tiktoken
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "tokenizers"
SHARED = pathlib.Path(sys.argv[1]).resolve()

TEXTS = [
    "", " ", "  ", "\n", "\t", "a", "Hello world", " Hello  world ", "Hello, y'all! How are you?",
    "I've we'LL 'S it's DON'T", "3 33 333 3333 33333.14159 1,234,567", "\n\n \n\t\r\n  x\n", "   indented\n\treturn x;",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }  // dot", "def f(x):\n    return x**2\n",
    "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m \u00df \u0130\u0131", "e\u0301 n\u0303 \u1112\u1161\u11ab \u0928\u093f \u0e01\u0e33",
    "\ufb01ne \u2460 \u2167 \u00bd \u00b2 \uff21\uff22\uff23 \u3000x", "\u6211\u60f3\u5728apple\u5de5\u4f5c1314151\u5929\uff5e",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3068\uff76\uff85", "\ud55c\uad6d\uc5b4 \uc548\ub155\ud558\uc138\uc694",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u0645\u0631\u062d\u0628\u0627 \u0967\u0968\u0969",
    "\U0001f999 \U0001f680\U0001f680 \U0001f636\u200d\U0001f32b\ufe0f \U0001f1e9\U0001f1ea \U0001f469\u200d\U0001f469\u200d\U0001f467",
    "<s>", "</s> x", "a <s> b </s>  c", "<|endoftext|>", "x<|endoftext|>\n y", "<|user|>\n  Hi<|end|> \n<|assistant|>",
    "<|start_story|>Once <|end_story|>", "[INST] hi [/INST]", "<|im_start|>system", "<unk> [UNK] [CLS] [MASK]  x",
    "<0x0A> \u2581 \u2581\u2581the", "Ġ Ċ", "hello<sep>world <sep> x", "keep \u00abL\u00bb  \u00abR\u00bb  \u00abB\u00bb x \u00abW\u00bb y\u00abW\u00bbz \u00abN\u00bb",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "." * 20 + "!" * 7, " " * 33 + "x", "\u200b\u00a0\u2003\u180e\u0085\u2028\ufeff",
    "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer",
    "https://example.com/a?b=c&d=%20#frag user@host.org", "\u0000\u0001\u007f", "\U000f1234 \ue000 \U0010fffd",
]
# Read as U+FFFD, one for each maximal subpart.
BAD_UTF8 = [b"\xff", b"a\x80b", b"\xe6\x88 x", b"\xf0\x9f\xa6", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80 \xe2\x82\xac"]


# ---- small tokenizers

CORPUS = (SHARED / "data/text/tinyshakespeare.txt").read_text()[:200000].splitlines() + TEXTS * 3


def save(tokenizer, name):
    # Reference implementations write one token per line; nobody reads these.
    text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (OUT / name).write_text(text + "\n")


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(CORPUS, trainer)


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    train(tokenizer, trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
                                               limit_alphabet=120, show_progress=False))
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    tokenizer.decoder = decoders.WordPiece()
    save(tokenizer, "word_piece.json")


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    train(tokenizer, trainers.UnigramTrainer(vocab_size=300, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                             show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.decoder = decoders.Metaspace()
    save(tokenizer, "unigram.json")


def byte_level_steps():
    """Steps after ByteLevel see bytes as characters, as in Falcon's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    train(tokenizer, trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                         special_tokens=["<|endoftext|>"], show_progress=False))
    tokenizer.decoder = decoders.ByteLevel()
    save(tokenizer, "byte_level_steps.json")


def llama_3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                                   r"|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    train(tokenizer, trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                         special_tokens=["<|begin_of_text|>", "<|end_of_text|>"], show_progress=False))
    # A token that no merge makes.
    description = json.loads(tokenizer.to_str())
    description["model"]["vocab"]["\u0120question"] = 500
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])])
    tokenizer.decoder = decoders.ByteLevel()
    save(tokenizer, "llama_3.json")


def splits():
    """All behaviours of Split, many normalisers, and all flags of added tokens."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip(),
        normalizers.Replace("th", "\u00fe")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.CharDelimiterSplit("|"), pre_tokenizers.Split(",", "merged_with_previous"),
        pre_tokenizers.Split(Regex("[!?']"), "merged_with_next"), pre_tokenizers.Split(Regex("[.]"), "contiguous"),
        pre_tokenizers.Split(Regex(r"\S+"), "removed", invert=True), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation(), pre_tokenizers.Whitespace()])
    train(tokenizer, trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], limit_alphabet=60, show_progress=False))
    tokenizer.add_tokens([AddedToken("\u00abL\u00bb", lstrip=True, normalized=False),
                          AddedToken("\u00abR\u00bb", rstrip=True, normalized=False),
                          AddedToken("\u00abB\u00bb", lstrip=True, rstrip=True, normalized=False),
                          AddedToken("\u00abW\u00bb", single_word=True, normalized=False),
                          AddedToken("\u00abN\u00bb", normalized=True)])
    tokenizer.decoder = decoders.Fuse()
    save(tokenizer, "splits.json")


def metaspace_first():
    """A mark only where the text begins, words not split, unknown characters as bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    train(tokenizer, trainers.BpeTrainer(vocab_size=600, special_tokens=tokens, limit_alphabet=70, show_progress=False))
    description = json.loads(tokenizer.to_str())
    description["added_tokens"] = description["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    save(tokenizer, "metaspace_first.json")


def sentencepiece_models():
    corpus = OUT / "corpus.tmp"
    corpus.write_text("\n".join(line for line in CORPUS if "\0" not in line))
    rules = OUT / "rules.tmp"
    rules.write_text("FB01\t66 69\n41\t61\n2460\t31\n66 66\t46\n")  # a ligature, a letter, a digit, two letters
    os.chdir(OUT)  # models keep the names of files as given
    common = dict(input=corpus.name, hard_vocab_limit=False, minloglevel=2, num_threads=1, bos_id=1, eos_id=2, pad_id=3)
    sentencepiece.SentencePieceTrainer.train(model_prefix="sp_unigram", model_type="unigram", vocab_size=300,
                                             normalization_rule_tsv=rules.name, user_defined_symbols=["<sep>", "[INST]"],
                                             character_coverage=0.98, **common)
    sentencepiece.SentencePieceTrainer.train(model_prefix="sp_unigram_bytes", model_type="unigram",
                                             vocab_size=560, byte_fallback=True, normalization_rule_name="identity",
                                             remove_extra_whitespaces=False, character_coverage=0.98, **common)
    sentencepiece.SentencePieceTrainer.train(model_prefix="sp_bpe", model_type="bpe", vocab_size=300,
                                             normalization_rule_name="identity", add_dummy_prefix=False,
                                             user_defined_symbols=["<sep>", "\u2581\u2581"], character_coverage=0.98,
                                             **common)
    for path in OUT.glob("sp_*.vocab"):
        path.unlink()
    corpus.unlink()
    rules.unlink()


# ---- what the packages make of the texts

TEXTS_WITH_BAD = TEXTS + [data.decode(errors="replace") for data in BAD_UTF8]


def of_tokenizers(path):
    tokenizer = Tokenizer.from_file(str(path))
    result = {}
    for mode in ("plain", "parsed", "around"):
        tokenizer.encode_special_tokens = mode == "plain"
        result[mode] = [tokenizer.encode(text, add_special_tokens=mode == "around").ids for text in TEXTS_WITH_BAD]
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    # These models have special tokens in their own vocabularies, and find them there; Hearth does not.
    if isinstance(tokenizer.model, (models.Unigram, models.WordPiece)):
        for i, text in enumerate(TEXTS_WITH_BAD):
            if any(token in text for token in special):
                result["plain"][i] = None
    # The package decodes tokens that are searched for in normalised text as they are there.
    odd = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special or token.normalized}
    result["decoded"] = [None if ids is None or odd.intersection(ids)
                         else tokenizer.decode(ids, skip_special_tokens=False) for ids in result["plain"]]
    return result


def of_qwen2(folder):
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return {"plain": [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS_WITH_BAD]}


CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def isolated(*patterns):
    return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns] + \
        [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def known_pre_tokenizers():
    """By their names in GGUF files, as in the tokenizer.json of the models. (Falcon's steps after ByteLevel cut bytes of
    characters apart, which its merges never join; Hearth does not cut there.)"""
    digits = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return {
        "gpt-2": [pre_tokenizers.ByteLevel(add_prefix_space=False)],
        "llama-bpe": isolated(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + REST),
        "stablelm2": isolated(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST),
        "starcoder": digits,
        "smollm": digits,
        "tekken": isolated(rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}|"
                           r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
        "gpt-4o": isolated(O200K),
        "deepseek-coder": [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in
                           ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+")] + [
                               pre_tokenizers.Digits(individual_digits=True),
                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)],
        "deepseek-v3": isolated(
            r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+"),
        "bloom": isolated(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"),
        "bailingmoe": isolated(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
                               r"\s*[\r\n]|\s+(?!\S)|\s+"),
        "superbpe": isolated(r"\p{N}+", r"(?=(\d{3})+(?!\d))"),
        "qwen35": isolated(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
                           r"\s*[\r\n]+|\s+(?!\S)|\s+"),
    }


def pieces():
    """The lengths, in characters, of the pieces that each makes of the texts."""
    result = {}
    for name, steps in known_pre_tokenizers().items():
        cut = pre_tokenizers.Sequence(steps).pre_tokenize_str
        result[name] = [[end - begin for _, (begin, end) in cut(text)] for text in TEXTS_WITH_BAD]
    return result


def of_sentencepiece(path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = [model.encode(text) for text in TEXTS_WITH_BAD]
    # Unknown pieces are decoded as " ⁇ " there.
    return {"plain": ids, "decoded": [None if model.unk_id() in line else model.decode(line) for line in ids]}


def of_ranks(path, pattern):
    ranks = {}
    for line in path.read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    encoding = tiktoken.Encoding("ranks", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    ids = [encoding.encode_ordinary(text) for text in TEXTS_WITH_BAD]
    return {"plain": ids, "decoded": [encoding.decode(line) for line in ids]}


CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
          r"\s+(?!\S)|\s")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDING = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDING}|\p{{N}}{{1,3}}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def main():
    OUT.mkdir(exist_ok=True)
    if "--train" in sys.argv:
        for make in (word_piece, unigram, byte_level_steps, llama_3, splits, metaspace_first, sentencepiece_models):
            make()
    golden = {"texts": TEXTS, "bad_utf8": [data.hex() for data in BAD_UTF8], "local": {}, "shared": {}}
    for path in sorted(OUT.glob("*.json")):
        if path.name != "golden.json":
            golden["local"][path.name] = of_tokenizers(path)
    for path in sorted(OUT.glob("*.model")):
        golden["local"][path.name] = of_sentencepiece(path)
    for name in ("tokenizers/gpt-2/tokenizer.json", "tokenizers/phi-3-mini/tokenizer.json",
                 "models/tinystories-656K/f32/tokenizer.json"):
        golden["shared"][name] = of_tokenizers(SHARED / name)
    for name in ("tokenizers/mistral/tokenizer.model.v1", "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3"):
        golden["shared"][name] = of_sentencepiece(SHARED / name)
    golden["shared"]["tokenizers/qwen2.5"] = of_qwen2(SHARED / "tokenizers/qwen2.5")
    golden["pieces"] = pieces()
    for name, pattern in (("cl100k_base", CL100K), ("o200k_base", O200K)):
        golden["shared"][f"tokenizers/tiktoken/{name}.tiktoken"] = of_ranks(SHARED / f"tokenizers/tiktoken/{name}.tiktoken",
                                                                            pattern)
    lines = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))
    (OUT / "golden.json").write_text(lines + "\n")


main()
