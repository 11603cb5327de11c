"""Language models: small ones that lie beside the repository."""

import json
import threading
import time

import numpy as np
import pytest

import hearth as ht
from conftest import SHARED


@pytest.fixture(scope="module")
def model():
    path = SHARED / "models" / "stories260K" / "stories260K.gguf"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    parts = []
    model = ht.llm.load(path, sequences=2, progress=parts.append)
    assert parts and parts[-1] == pytest.approx(1)
    return model


PROMPT = "Once upon a time"


def test_what_it_is(model):
    assert model.config["architecture"] == "llama" and model.context > 0 and model.parameters > 200_000
    assert "llama" in repr(model) or "M parameters" in repr(model)
    assert model.weight_bytes > 0 and model.device == "cpu"


def test_tokenizer(model):
    tokenizer = model.tokenizer
    tokens = tokenizer.encode(PROMPT)
    assert tokens[0] == tokenizer.bos and tokenizer.decode(tokens, skip_special=True).strip() == PROMPT
    assert tokenizer.find(tokenizer.token(tokens[1])) == tokens[1] and len(tokenizer) == 512
    assert tokenizer.ends_generation(tokenizer.eos) and tokenizer.is_special(tokenizer.bos)
    with pytest.raises(ht.IndexError):
        tokenizer.decode([100000])
    assert tokenizer.decode(tokenizer.encode("naïve 🙂", add_special=False)).strip() == "naïve 🙂"


def test_generate(model):
    greedy = model.generate(PROMPT, max_tokens=30, temperature=0)
    assert len(greedy.tokens) == 30 and greedy.reason == "length" and str(greedy) == greedy.text
    assert model.generate(PROMPT, max_tokens=30, temperature=0).text == greedy.text
    again = model.generate(PROMPT, max_tokens=30, temperature=0)
    assert again.reused_tokens > 0 and again.tokens_per_second > 0
    assert model.generate(PROMPT, max_tokens=30, temperature=0, lookup=2).text[:20] == greedy.text[:20]
    assert len(model.generate(PROMPT, max_tokens=5, mirostat=2, seed=1).tokens) == 5
    seeded = [model.generate(PROMPT, max_tokens=20, seed=7).text for _ in range(2)]
    assert seeded[0] == seeded[1]
    seen = []
    model.generate(PROMPT, max_tokens=30, temperature=0, on_token=lambda token, text: seen.append(text))
    assert "".join(seen) == greedy.text
    stopped = model.generate(PROMPT, on_token=lambda token, text: False, temperature=0)
    assert stopped.reason == "cancelled" and len(stopped.tokens) <= 1
    word = greedy.text.split()[2]
    assert word not in model.generate(PROMPT, max_tokens=30, temperature=0, stop=[word]).text


def test_scores_match_generation(model):
    session = model.session()
    tokens = model.tokenizer.encode(PROMPT)
    scores = session.feed(tokens)
    assert scores.shape == (512,) and session.tokens == tokens
    assert scores.argmax().item() == model.generate(PROMPT, max_tokens=1, temperature=0).tokens[0]
    np.testing.assert_allclose(model.scores(PROMPT).numpy(), scores.numpy(), atol=2e-2)
    session.truncate(0)
    everything = session.feed_all(tokens)
    np.testing.assert_allclose(everything[-1].numpy(), scores.numpy(), atol=2e-2)


def test_stream(model):
    expected = model.generate(PROMPT, max_tokens=20, temperature=0).text
    assert "".join(model.stream(PROMPT, max_tokens=20, temperature=0)) == expected
    for i, piece in enumerate(model.stream(PROMPT, temperature=0)):  # left early: the model stops
        if i == 3:
            break
    assert model.generate(PROMPT, max_tokens=20, temperature=0).text == expected
    with pytest.raises(ht.ValueError):
        list(model.stream(PROMPT, temperature=-1))


TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def test_chat(model):
    text = model.render_chat([{"role": "user", "content": "Hi"}], template=TEMPLATE)
    assert text == "<user>Hi<assistant>"
    chat = model.chat(system="Be kind.", template=TEMPLATE, max_tokens=8, temperature=0)
    answer = chat.send("Hello")
    assert [m["role"] for m in chat.messages] == ["system", "user", "assistant"] and chat.messages[-1]["content"] == answer
    streamed = "".join(chat.stream("More"))
    assert chat.messages[-1] == {"role": "assistant", "content": streamed} and len(chat.messages) == 5
    thinking = model.chat(template=TEMPLATE + "<think>{# </think> #}", max_tokens=4, temperature=0)
    assert thinking.send("Hello") == "" and thinking.messages[-1]["reasoning_content"]
    assert "".join(thinking.stream("More")) == "" and thinking.messages[-1]["reasoning_content"]
    # A grammar is for what is said, behind the thoughts.
    thinking.send("Hello", grammar='root ::= "x"')
    assert thinking.messages[-1]["reasoning_content"] != "x"
    # What cannot be answered is no part of the conversation; what was said until nobody listened any more is.
    before = list(chat.messages)
    for ask in (chat.send, lambda message: list(chat.stream(message))):
        with pytest.raises(ht.ValueError):
            ask("word " * 5000)
        assert chat.messages == before
    pieces = chat.stream("More")
    first = next(pieces)
    pieces.close()
    assert chat.messages[:-2] == before and chat.messages[-1] == {"role": "assistant", "content": first}
    with pytest.raises(ht.TemplateError) as error:
        model.render_chat([], template="{{ nothing.x.y }}")
    assert error.value.line == 1
    if not model.chat_template:
        with pytest.raises(ht.ValueError, match="chat template"):
            model.chat().send("Hello")


def test_grammar(model):
    grammar = ht.llm.Grammar.parse('root ::= "yes" | "no" [0-9]{2}')
    assert grammar.matches("no42") and not grammar.matches("no4")
    for given in (grammar, 'root ::= "yes" | "no" [0-9]{2}'):
        answer = model.generate(PROMPT, grammar=given, seed=3)
        assert grammar.matches(answer.text) and answer.reason == "end"
    schema = {"type": "object", "properties": {"name": {"enum": ["Tim", "Lily"]}, "age": {"type": "integer", "minimum": 1, "maximum": 99}},
              "required": ["name", "age"]}  # fmt: skip
    for given in (schema, json.dumps(schema)):
        value = json.loads(model.generate(PROMPT, json_schema=given, seed=5).text)
        assert value["name"] in ("Tim", "Lily") and 1 <= value["age"] <= 99
    assert "".join(model.stream(PROMPT, grammar='root ::= "stop"')) == "stop"
    with pytest.raises(ht.FormatError, match="line 1"):
        model.generate(PROMPT, grammar="root ::= (")
    with pytest.raises(ht.FormatError):
        model.generate(PROMPT, json_schema={"type": "spoon"})
    with pytest.raises(ht.ValueError, match="exclude each other"):
        model.generate(PROMPT, json_schema={}, grammar=grammar)
    with pytest.raises(TypeError, match="grammar cannot be 5"):
        model.generate(PROMPT, grammar=5)


def test_logprobs(model):
    answer = model.generate(PROMPT, max_tokens=4, temperature=0, logprobs=3)
    assert [entry.token for entry in answer.logprobs] == answer.tokens and answer.logprobs[0].logprob < 0
    assert "".join(entry.text for entry in answer.logprobs) == answer.text
    scores = model.scores(PROMPT).numpy().astype(np.float64)
    expected = scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())
    best = answer.logprobs[0].best
    assert [b.token for b in best] == np.argsort(-expected)[:3].tolist()
    np.testing.assert_allclose([b.logprob for b in best], np.sort(expected)[::-1][:3], atol=5e-3)
    assert model.generate(PROMPT, max_tokens=1).logprobs == []
    assert model.generate(PROMPT, max_tokens=2, logprobs=0).logprobs[1].best == []


def test_how_tokens_are_chosen(model):
    greedy = model.generate(PROMPT, max_tokens=1, temperature=0).tokens[0]
    assert model.generate(PROMPT, max_tokens=1, temperature=0, logit_bias={greedy: float("-inf")}).tokens[0] != greedy
    assert model.generate(PROMPT, max_tokens=3, logit_bias={7: 1000.0}, ignore_end=True).tokens == [7, 7, 7]
    for version in (1, 2):
        texts = [model.generate(PROMPT, max_tokens=20, temperature=1.5, seed=9, mirostat=version, mirostat_target=t).text
                 for t in (0.1, 0.1, 9.0)]  # fmt: skip
        assert texts[0] == texts[1] != texts[2]
    assert model.generate(PROMPT, max_tokens=30, temperature=0, stop="the").text.count("the") == 0
    assert model.generate(PROMPT, max_tokens=30, temperature=0, stop=["the", "was"]).reason == "stop"
    for wrong in (dict(mirostat=3), dict(lookup=-1), dict(keep=10**6)):
        with pytest.raises(ht.ValueError):
            model.generate(PROMPT, max_tokens=1, **wrong)


def test_guessing_ahead_changes_nothing(model):
    plain = model.generate(PROMPT, max_tokens=40, temperature=0)
    looked_up = model.generate(PROMPT, max_tokens=40, temperature=0, lookup=2)
    assert looked_up.tokens == plain.tokens and looked_up.drafted_tokens >= looked_up.accepted_tokens >= 0
    draft = ht.llm.load(SHARED / "models" / "stories260K" / "stories260K.gguf")
    drafted = model.generate(PROMPT, max_tokens=40, temperature=0, draft=draft, most_drafted=4)
    assert drafted.tokens == plain.tokens
    assert drafted.drafted_tokens > 0 and drafted.accepted_tokens > drafted.drafted_tokens // 2  # the same model guesses well
    with pytest.raises(TypeError, match="draft cannot be"):
        model.generate(PROMPT, draft="model.gguf")


def test_a_full_context(model):
    small = ht.llm.load(SHARED / "models" / "stories260K" / "stories260K.gguf", context=64)
    assert small.generate(PROMPT, ignore_end=True).reason == "context"
    going_on = small.generate(PROMPT, max_tokens=100, ignore_end=True, keep=4)
    assert going_on.reason == "length" and len(going_on.tokens) == 100 and going_on.shifts >= 2
    session = ht.llm.load(SHARED / "models" / "stories260K" / "stories260K.gguf", context=64).session()
    session.feed(range(10, 30))
    assert session.shift(4) == 8 and session.tokens == [10, 11, 12, 13, *range(22, 30)]
    with pytest.raises(ht.ValueError):
        session.shift(100)


@pytest.mark.parametrize("cache_dtype", ["float32", "bfloat16", "float16", "q8_0"])
def test_types_of_the_cache(cache_dtype):
    path = SHARED / "models" / "tinystories-656K" / "f32"
    if not path.is_dir():
        pytest.skip(f"{path} is not there")
    plain = ht.llm.load(path, context=64, cache_dtype="float32")
    if cache_dtype == "q8_0" and plain.config["head_size"] % 32:
        with pytest.raises(ht.ValueError, match="q8_0 needs heads of a multiple of"):
            ht.llm.load(path, context=64, cache_dtype=cache_dtype)
        return
    other = ht.llm.load(path, context=64, cache_dtype=cache_dtype)
    assert (other.cache_bytes == plain.cache_bytes) == (cache_dtype == "float32")
    tokens = list(range(5, 25))
    np.testing.assert_allclose(other.scores(tokens).numpy(), plain.scores(tokens).numpy(), atol=0.3)


def test_cache_of_a_type_it_cannot_have():
    with pytest.raises(ht.ValueError, match="a cache of i64"):
        ht.llm.load(SHARED / "models" / "stories260K" / "stories260K.gguf", cache_dtype="int64")


def test_embeddings(model):
    width = model.config["width"]
    tokens = model.tokenizer.encode(PROMPT)
    session = model.session()
    features = session.features(tokens).numpy()
    assert features.shape == (len(tokens), width) and session.tokens == tokens
    for pooling, expected in (("mean", features.mean(0)), ("last", features[-1])):
        vector = model.embed(PROMPT, pooling=pooling, normalize=False).numpy()
        np.testing.assert_allclose(vector, expected, atol=1e-4)
        unit = model.embed(tokens, pooling=pooling).numpy()
        np.testing.assert_allclose(unit, expected / np.linalg.norm(expected), atol=1e-4)
    texts = ["The cat sat on the mat.", "The dog sat on the mat.", "Numbers: 1 2 3 4 5 6"]
    matrix = model.embed(texts).numpy()
    assert matrix.shape == (3, width)
    np.testing.assert_allclose(matrix[1], model.embed(texts[1]).numpy(), atol=1e-4)
    assert matrix[0] @ matrix[1] > matrix[0] @ matrix[2]  # two sentences that differ in a word are nearer
    with pytest.raises(ht.ValueError, match="pooling"):
        model.embed(PROMPT, pooling="best")
    with pytest.raises(ht.ValueError, match="no tokens"):
        model.embed([])


def test_features_become_scores():
    """Times the output matrix, features are the scores."""
    path = SHARED / "models" / "tinystories-656K" / "f32"
    if not path.is_dir():
        pytest.skip(f"{path} is not there")
    model = ht.llm.load(path, cache_dtype="float32", sequences=2)
    weights = ht.load(next(path.glob("*.safetensors")))
    matrix = weights.get("lm_head.weight", weights.get("model.embed_tokens.weight")).numpy()
    tokens = list(range(3, 23))
    np.testing.assert_allclose(
        model.session().features(tokens).numpy() @ matrix.T, model.session().feed_all(tokens).numpy(), atol=2e-3
    )


def test_session(model):
    session = model.session()
    first = session.generate(PROMPT, max_tokens=5, temperature=0)
    assert session.generate(PROMPT, max_tokens=5, temperature=0).reused_tokens > first.reused_tokens == 0
    assert "".join(session.stream(PROMPT, max_tokens=5, temperature=0)) == first.text
    with pytest.raises(ht.ValueError, match="in use; the option `sequences`"):
        [model.session() for _ in range(3)]


def test_using_the_model_within_a_stream(model):
    seen = []
    for piece in model.stream(PROMPT, max_tokens=100, temperature=0, ignore_end=True):
        seen.append(piece)
        if len(seen) == 2:
            model.generate(PROMPT, max_tokens=1)
    assert len(seen) > 50


def test_tokens_that_end_within_a_character(model):
    """A token may be one byte of several."""
    tokenizer = model.tokenizer
    byte = tokenizer.encode("🙂", add_special=False)[-1]
    assert len(tokenizer.bytes(byte)) == 1
    assert "\ufffd" in tokenizer.decode([byte])
    answer = model.generate(PROMPT, max_tokens=3, logit_bias={byte: 1e6}, logprobs=1)
    assert answer.tokens == [byte] * 3 and "\ufffd" in answer.text and answer.logprobs[0].text == "\ufffd"


def test_wrong_use(model, tmp_path):
    for options in (dict(temperature=-1), dict(speed=3), dict(top_p=5)):
        with pytest.raises(ht.ValueError):
            model.generate(PROMPT, max_tokens=1, **options)
    with pytest.raises(ht.ValueError):
        model.generate([10**6], max_tokens=1)
    with pytest.raises(TypeError):
        model.generate(5)
    with pytest.raises(TypeError, match="temperature cannot be 'hot'"):
        model.generate(PROMPT, temperature="hot")
    with pytest.raises(ht.ValueError, match="there is no option 'speed'; there are max_tokens, stop"):
        model.generate(PROMPT, speed=3)
    with pytest.raises(RuntimeError, match="from the callback"):

        def fail(token, text):
            raise RuntimeError("from the callback")

        model.generate(PROMPT, on_token=fail)
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ht.FormatError):
        ht.llm.load(tmp_path / "bad.gguf")
    assert model.generate(PROMPT, max_tokens=2).tokens


def test_threads_take_turns(model):
    expected = model.generate(PROMPT, max_tokens=10, temperature=0).text
    texts = []
    threads = [
        threading.Thread(target=lambda: texts.append(model.generate(PROMPT, max_tokens=10, temperature=0).text))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert texts == [expected] * 4


def test_what_a_session_has_seen_is_read_between_its_texts(model):
    session, begun = model.session(), threading.Event()

    def slow(token, text):
        begun.set()
        time.sleep(0.02)

    text = threading.Thread(target=lambda: session.generate(PROMPT, slow, max_tokens=10, temperature=0))
    text.start()
    assert begun.wait(60)
    seen = session.tokens
    text.join(60)
    assert seen == session.tokens and len(seen) >= 10
