"""Language models: a GGUF file or a Hugging Face folder in, text out.

    model = ht.llm.load("model.gguf")
    print(model.generate("Once upon a time", max_tokens=100).text)
    for piece in model.stream("Once upon a time"): print(piece, end="")
    chat = model.chat(system="You are brief.")
    print(chat.send("Hello!"))
"""

import json
import queue
import threading

from . import _core
from ._core import _llm
from ._core._llm import Session, Tokenizer


class Generation:
    """A text with how it came about."""

    def __init__(self, result):
        self.text, self.tokens, self.reason = result["text"], result["tokens"], result["reason"]
        self.prompt_tokens, self.reused_tokens = result["prompt_tokens"], result["reused_tokens"]
        self.prompt_seconds, self.generate_seconds = result["prompt_seconds"], result["generate_seconds"]

    @property
    def tokens_per_second(self):
        return len(self.tokens) / self.generate_seconds if self.generate_seconds > 0 else float("nan")

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"Generation({self.text!r}, reason={self.reason!r}, {len(self.tokens)} tokens)"


class Model:
    """A model in memory, with one sequence that goes on where a prompt has the same beginning. Calls from several threads
    take turns.

    Options of generate(), stream() and of a chat: max_tokens, stop (list of texts), temperature, top_k, top_p, min_p,
    typical_p, repetition_penalty, frequency_penalty, presence_penalty, penalty_window, bias ({token: value}), seed,
    ignore_end, mirostat, mirostat_target, mirostat_rate, keep (tokens of the beginning that stay when the context is full),
    lookup and most_drafted (guess what followed the same tokens before). include/hearth/llm.h describes each.
    """

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
        return Session(self._native)

    def _run(self, prompt, options, each=None):
        if isinstance(prompt, str):
            prompt = self.tokenizer.encode(prompt)
        with self._lock:
            if self._session is None:
                self._session = Session(self._native)
            return Generation(self._session.generate(list(prompt), options, each))

    def scores(self, prompt):
        """The scores of every token of the vocabulary to come after a prompt (text or tokens)."""
        if isinstance(prompt, str):
            prompt = self.tokenizer.encode(prompt)
        with self._lock:
            if self._session is None:
                self._session = Session(self._native)
            self._session.truncate(0)
            return self._session.feed(list(prompt))

    def generate(self, prompt, on_token=None, **options):
        """The text that follows a prompt (text or tokens). `on_token(token, text)` sees each; returning False stops."""
        each = None
        if on_token is not None:
            each = lambda token, text: on_token(token, text) is not False
        return self._run(prompt, options, each)

    def stream(self, prompt, **options):
        """Yields the text piece by piece. Leaving the loop stops the model."""
        pieces = queue.Queue(maxsize=64)
        cancelled = threading.Event()
        done = object()

        def each(token, text):
            while not cancelled.is_set():
                try:
                    pieces.put(text, timeout=0.1)
                    return True
                except queue.Full:
                    pass
            return False

        def work():
            try:
                self._run(prompt, options, each)
                end = done
            except BaseException as error:  # raised where the pieces are taken
                end = error
            while not cancelled.is_set():
                try:
                    return pieces.put(end, timeout=0.1)
                except queue.Full:
                    pass

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

    def _prompt(self):
        text = self._model.render_chat(self.messages, self._template)
        return self._model.tokenizer.encode(text, add_special=False, parse_special=True)

    def send(self, message, **options):
        """The model's answer."""
        self.messages.append({"role": "user", "content": message})
        try:
            answer = self._model.generate(self._prompt(), **{**self._options, **options}).text
        except BaseException:
            self.messages.pop()
            raise
        self.messages.append({"role": "assistant", "content": answer})
        return answer

    def stream(self, message, **options):
        """The model's answer piece by piece."""
        self.messages.append({"role": "user", "content": message})
        answer = ""
        try:
            for piece in self._model.stream(self._prompt(), **{**self._options, **options}):
                answer += piece
                yield piece
        finally:
            self.messages.append({"role": "assistant", "content": answer})


def load(path, device=None, context=0, cache_dtype="float16", sequences=1, progress=None):
    """Loads a GGUF file or a Hugging Face folder.

    context: tokens of a sequence (0: as the model, at most 4096); sequences: how many have room; progress: a function of
    the part loaded.
    """
    return Model(_llm.CoreModel.load(str(path), device, context, cache_dtype, sequences, progress))
