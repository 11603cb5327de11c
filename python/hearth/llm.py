"""Language models: a GGUF file or a Hugging Face folder in, text out.

    model = ht.llm.load("model.gguf")
    print(model.generate("Once upon a time", max_tokens=100).text)
    for piece in model.stream("Once upon a time"): print(piece, end="")
    chat = model.chat(system="You are brief.")
    print(chat.send("Hello!"))
    print(model.generate("A cat as JSON: ", json_schema={"type": "object"}).text)
    similarity = model.embed("a cat") @ model.embed("a kitten")

Options of generate() and stream(); include/hearth/llm.h says more of each:

    max_tokens          tokens at most; -1: until the model ends or the context is full
    stop                a text, or several, that the text ends before
    temperature, top_k, top_p, min_p, typical_p         how tokens are chosen; temperature 0: always the best one
    mirostat, mirostat_target, mirostat_rate            1 or 2, in place of top_k to typical_p
    repetition_penalty, frequency_penalty, presence_penalty, penalty_window
    logit_bias          {token: number}, added to scores; -inf: never
    seed                of the random numbers; 0: a new one each time
    grammar             a Grammar, or its rules (GBNF), that the text follows
    grammar_after       only what follows this is held to it; "": all
    json_schema         a schema (dictionary or text) that the text, which is JSON, is valid by; {}: any JSON
    logprobs            log-probabilities of each token, and of so many of the most likely ones
    draft               a faster model with the same tokens, which guesses ahead
    lookup              guess what followed when the last so many tokens came before
    most_drafted        tokens guessed at a time
    keep                when the context is full, keep that many tokens of the beginning, drop half of the others, go on
    ignore_end          go on where the model would end
"""

import json
import queue
import threading
from typing import NamedTuple

from . import _core
from ._core import _llm
from ._core._llm import Grammar, Tokenizer


class TokenLogprob(NamedTuple):
    """The natural logarithm of a token's probability, by the model's own scores."""

    token: int
    text: str
    logprob: float
    best: list  # the most likely tokens, each a TokenLogprob without others


class Generation:
    """A text with how it came about.

    reason: what ended it, "end", "length", "stop", "context" or "cancelled". reused_tokens: of the prompt, still in the cache
    from before. drafted_tokens, accepted_tokens: guesses, and those that were right. shifts: times that tokens were dropped
    from a full context. logprobs: a TokenLogprob for each token where they were asked for.
    """

    def __init__(self, result, tokenizer):
        for name, value in result.items():
            setattr(self, name, value)

        def named(token, logprob, best=()):
            text = tokenizer.bytes(token).decode(errors="replace")
            return TokenLogprob(token, text, logprob, [named(*other) for other in best])

        self.logprobs = [named(*entry) for entry in result["logprobs"]]

    @property
    def tokens_per_second(self):
        return len(self.tokens) / self.generate_seconds if self.generate_seconds > 0 else float("nan")

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"Generation({self.text!r}, reason={self.reason!r}, {len(self.tokens)} tokens)"


def _native_options(options):
    """Options as the C++ library takes them."""
    options = {name: value for name, value in options.items() if value is not None}
    schema = options.pop("json_schema", None)
    if schema is not None:
        if "grammar" in options:
            raise _core.ValueError("[generate] grammar and json_schema exclude each other")
        options["grammar"] = Grammar.from_json_schema(schema if isinstance(schema, str) else json.dumps(schema))
    if isinstance(options.get("grammar"), str):
        options["grammar"] = Grammar.parse(options["grammar"])
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    if isinstance(options.get("draft"), Model):
        options["draft"] = options["draft"]._native
    return options


class Session:
    """A sequence of tokens with its keys and values. What a prompt has in common with it is not computed again.

    Calls from several threads take turns, those of different sessions too.
    """

    def __init__(self, model):
        self._model, self._native = model, _llm.CoreSession(model._native)
        self._lock = threading.RLock()

    @property
    def tokens(self):
        """What it has seen."""
        return self._native.tokens

    def feed(self, tokens):
        """The scores of the token after these, which follow those seen before: (vocabulary,)."""
        return self._native.feed(self._model._tokens(tokens))

    def feed_all(self, tokens):
        """The scores after each of them: (tokens, vocabulary)."""
        return self._native.feed_all(self._model._tokens(tokens))

    def features(self, tokens):
        """The tokens as the last layer has them, before they become scores: (tokens, width)."""
        return self._native.features(self._model._tokens(tokens))

    def truncate(self, count):
        """Forgets all but the first tokens."""
        self._native.truncate(count)

    def shift(self, keep):
        """Forgets the older half of the tokens after the first `keep`; returns how many those were."""
        return self._native.shift(keep)

    def generate(self, prompt, on_token=None, **options):
        """The text that follows a prompt (text or tokens). `on_token(token, text)` sees each; returning False stops."""
        each = None
        if on_token is not None:
            each = lambda token, text: on_token(token, text) is not False
        tokens, options = self._model._tokens(prompt), _native_options(options)
        with self._lock:
            return Generation(self._native.generate(tokens, options, each), self._model.tokenizer)

    def stream(self, prompt, **options):
        """Yields the text piece by piece. Leaving the loop stops the model."""
        pieces = queue.SimpleQueue()  # without a limit: whoever takes them may use the model in between
        cancelled = threading.Event()
        done = object()

        def give(token, text):
            pieces.put(text)
            return not cancelled.is_set()

        def work():
            try:
                self.generate(prompt, give, **options)
                pieces.put(done)
            except BaseException as error:  # raised where the pieces are taken
                pieces.put(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while (piece := pieces.get()) is not done:
                if isinstance(piece, BaseException):
                    raise piece
                if piece:
                    yield piece
        finally:
            cancelled.set()
            thread.join()


class Model:
    """A model in memory, with a session of its own for generate(), stream(), scores() and embed()."""

    def __init__(self, native):
        self._native = native
        self._lock = threading.RLock()
        self._session = None
        self.config = native.config()

    def __getattr__(self, name):
        if name in ("device", "context", "weight_bytes", "cache_bytes", "parameters", "chat_template"):
            return getattr(self._native, name)
        raise AttributeError(name)

    @property
    def tokenizer(self):
        return self._native.tokenizer()

    def session(self):
        """A sequence of its own; load(sequences=...) says how many there may be, the model's own included."""
        return Session(self)

    def _own_session(self):
        with self._lock:
            if self._session is None:
                self._session = Session(self)
            return self._session

    def _tokens(self, prompt):
        return self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)

    def generate(self, prompt, on_token=None, **options):
        """The text that follows a prompt (text or tokens). `on_token(token, text)` sees each; returning False stops. Options
        are those of the module's description."""
        return self._own_session().generate(prompt, on_token, **options)

    def stream(self, prompt, **options):
        """Yields the text piece by piece. Leaving the loop stops the model."""
        return self._own_session().stream(prompt, **options)

    def scores(self, prompt):
        """The scores of every token of the vocabulary to come after a prompt (text or tokens)."""
        session = self._own_session()
        with session._lock:
            session.truncate(0)
            return session.feed(prompt)

    def embed(self, text, pooling="mean", normalize=True):
        """A vector of the model's width for a text (or tokens), a matrix for a list of texts.

        pooling: "mean" of the features of all tokens, or those of the "last" one. normalize: to length 1, so that products are
        cosines.
        """
        if pooling not in ("mean", "last"):
            raise _core.ValueError(f"[embed] pooling cannot be {pooling!r}; 'mean' and 'last' are possible")
        if not isinstance(text, str) and any(isinstance(part, (str, list, tuple)) for part in text):
            return _core.stack([self.embed(part, pooling, normalize) for part in text])
        tokens = self._tokens(text)
        if not tokens:
            raise _core.ValueError("[embed] there are no tokens")
        session = self._own_session()
        with session._lock:
            session.truncate(0)
            features = session.features(tokens)
        vector = features.mean(0) if pooling == "mean" else features[-1]
        if normalize:
            vector = vector / (vector * vector).sum().sqrt()
        return vector.eval()

    def render_chat(self, messages, template=None, **options):
        """The text of a conversation by the model's chat template. Options: add_generation_prompt, tools, documents,
        variables."""
        source = template or self.chat_template
        if not source:
            raise _core.ValueError("[chat] the model has no chat template; give one")
        tokenizer = self.tokenizer
        for name, token in (("bos_token", tokenizer.bos), ("eos_token", tokenizer.eos)):
            if token is not None:
                options.setdefault(name, tokenizer.token(token))
        return _llm.render_chat(source, json.dumps(messages), json.dumps(options))

    def chat(self, system=None, template=None, **options):
        """A conversation."""
        return Chat(self, system, template, options)

    def __repr__(self):
        return (
            f"Model({self.config['name'] or self.config['architecture']!r}, {self.parameters / 1e6:.1f} M parameters, "
            f"context {self.context}, on {self.device})"
        )


class Chat:
    """A conversation with a model; `messages` is what was said."""

    def __init__(self, model, system, template, options):
        self._model, self._template, self._options = model, template, options
        self.messages = [] if system is None else [{"role": "system", "content": system}]

    def _begin(self, message, options):
        self.messages.append({"role": "user", "content": message})
        try:
            text = self._model.render_chat(self.messages, self._template)
            prompt = self._model.tokenizer.encode(text, add_special=False, parse_special=True)
        except BaseException:
            self.messages.pop()
            raise
        reader = _llm.AnswerReader(self._model.tokenizer, self._template or self._model.chat_template, prompt)
        options = {"grammar_after": reader.end_of_thoughts, **self._options, **options}
        if reader.special_text:
            options["special_text"] = True
        return prompt, options, reader

    def _said(self, thoughts, text):
        message = {"role": "assistant", "content": text}
        if thoughts:
            message["reasoning_content"] = thoughts
        self.messages.append(message)

    def send(self, message, **options):
        """The model's answer. What a model thinks before it is `reasoning_content` of the last message."""
        prompt, options, reader = self._begin(message, options)
        try:
            parts = [reader.add(self._model.generate(prompt, **options).text), reader.finish()]
        except BaseException:
            self.messages.pop()
            raise
        thoughts, text = ("".join(some) for some in zip(*parts))
        self._said(thoughts, text)
        return text

    def stream(self, message, **options):
        """The model's answer piece by piece, without what it thinks."""
        prompt, options, reader = self._begin(message, options)
        thoughts, answer = "", ""

        def take(parts):
            nonlocal thoughts, answer
            thoughts, answer = thoughts + parts[0], answer + parts[1]
            return parts[1]

        try:
            for piece in self._model.stream(prompt, **options):
                if text := take(reader.add(piece)):
                    yield text
            if text := take(reader.finish()):
                yield text
        except Exception:
            self.messages.pop()
            raise
        except BaseException:  # nobody listens any more
            self._said(thoughts, answer)
            raise
        self._said(thoughts, answer)


def load(path, device=None, context=0, cache_dtype="float16", sequences=1, progress=None, gpu_layers=-1):
    """Loads a GGUF file or a Hugging Face folder.

    context: tokens of a sequence (0: as the model, at most 4096); cache_dtype: of keys and values, "float16", "bfloat16",
    "float32" or, where the size of a head is a multiple of 32, "q8_0"; sequences: how many have room; progress: a function
    of the part loaded; gpu_layers: how many of the last layers are on the device, where the CPU is to run the others (-1:
    all are on the device).
    """
    return Model(_llm.CoreModel.load(str(path), device, context, cache_dtype, sequences, gpu_layers, progress))
