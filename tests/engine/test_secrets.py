import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.engine.secrets import MASK, is_secret_name, mask_argv, mask_environment, mask_text, secret_values


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "--api-key", "--admin-api-key", "admin_api_key", "DB_PASSWORD", "--ssl-keyfile-password", "GH_PAT", "SESSION_SECRET"],
)  # fmt: skip
def test_secret_names(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["--max-total-tokens", "tokenizer_path", "--tokenizer-mode", "eos_token", "PATH", "max_total_num_tokens", "--keep-alive", "keyboard", "--ssl-keyfile", "num_token", "SPATIAL"],
)  # fmt: skip
def test_ordinary_names(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "server_args={'api_key': 'abc', 'admin_api_key': 'def', 'port': 1}",
            "server_args={'api_key': '***', 'admin_api_key': '***', 'port': 1}",
        ),
        (
            "ServerArgs(api_key='abc', admin_api_key=None, port=1)",
            "ServerArgs(api_key='***', admin_api_key=None, port=1)",
        ),
        ("run --api-key abc123 --port 1", "run --api-key *** --port 1"),
        ("run --admin-api-key=abc123", "run --admin-api-key=***"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
        ("using hf_ABCDEFGHIJKLMNOPQRST now", "using *** now"),
        ("at https://user:pw@host/x", "at https://user:***@host/x"),
        ("GET /x?token=abcd&a=1", "GET /x?token=***&a=1"),
        ("HF_TOKEN=abcd", "HF_TOKEN=***"),
        ('{"password": "a b c"}', '{"password": "***"}'),
    ],
)
def test_secrets_in_text(text, shown):
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Decode batch, #running-req: 4, #token: 232, token usage: 0.01, gen throughput (token/s): 35.01",
        "max_total_num_tokens=16384, chunked_prefill_size=4096",
        "Prefill batch, #new-token: 6, #cached-token: 0, #pending-token: 0",
        "eos_token='</s>' pad_token: None",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 16384, K size: 0.06 GB",
        "KeyError: 'midlayer.self_attn.qkv_proj.weight'",
        "Load weight end. elapsed=0.56 s",
    ],
)
def test_ordinary_lines_stay_as_they_are(text):
    assert mask_text(text) == text


@given(st.text(max_size=200))
def test_nothing_raises(text):
    mask_text(text)
    is_secret_name(text)
    mask_argv([text, text])


def test_command_lines_and_environments():
    argv = ["python", "--api-key", "abc", "--port", "1", "--admin-api-key=def", "--hf-token"]
    assert mask_argv(argv) == ["python", "--api-key", MASK, "--port", "1", f"--admin-api-key={MASK}", "--hf-token"]
    assert mask_environment({"HF_TOKEN": "abc", "A": "b", "EMPTY_TOKEN": ""}) == {
        "HF_TOKEN": MASK,
        "A": "b",
        "EMPTY_TOKEN": "",
    }


def test_known_values_are_masked_wherever_they_stand():
    values = secret_values(
        {"HF_TOKEN": "sesame-open", "SHORT_TOKEN": "ab", "HOME": "/home/me"}, ["--api-key", "another-one"]
    )
    assert values == {"sesame-open", "another-one"}
    assert mask_text("said sesame-open and another-one", values) == "said *** and ***"
