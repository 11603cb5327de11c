"""Language models: a small one that lies beside the repository."""

import threading

import numpy as np
import pytest

import hearth as ht


@pytest.fixture(scope="module")
def model():
    from conftest import SHARED

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
    with pytest.raises(ht.TemplateError) as error:
        model.render_chat([], template="{{ nothing.x.y }}")
    assert error.value.line == 1
    if not model.chat_template:
        with pytest.raises(ht.ValueError, match="chat template"):
            model.chat().send("Hello")


def test_wrong_use(model, tmp_path):
    for options in (dict(temperature=-1), dict(speed=3), dict(top_p=5)):
        with pytest.raises(ht.ValueError):
            model.generate(PROMPT, max_tokens=1, **options)
    with pytest.raises(ht.ValueError):
        model.generate([10**6], max_tokens=1)
    with pytest.raises((TypeError, RuntimeError)):
        model.generate(5)
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
