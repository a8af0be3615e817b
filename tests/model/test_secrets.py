"""What is hidden, and what only sounds like a secret."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.launch.environment import recorded
from lavender_tui.model.plan import Launch
from lavender_tui.model.secret_names import is_secret_name
from lavender_tui.model.secrets import (
    HIDDEN,
    holds_secrets,
    looks_secret,
    masked,
    masked_text,
    without_secrets,
)  # fmt: skip
from lavender_tui.model.settings import settings_of
from tests.model import build

SECRET = [
    (["train.py", "--wandb-key", "abc", "--lr", "1"], ["train.py", "--wandb-key", HIDDEN, "--lr", "1"]),
    (["--token=abc"], ["--token=***"]),
    (["--api_key", "-x9"], ["--api_key", HIDDEN]),
    (["+trainer.apiKey=zz"], ["+trainer.apiKey=***"]),
    (["env", "HF_TOKEN=abc", "python"], ["env", "HF_TOKEN=***", "python"]),
    (["--env=WANDB_API_KEY=abc"], ["--env=WANDB_API_KEY=***"]),
    (["s3://user:pa$$@host/data"], ["s3://***@host/data"]),
    (["--url=postgres://u:p@h:5/db"], ["--url=postgres://***@h:5/db"]),
    (['{"api_key": "abc", "lr": 1}'], ['{"api_key": ***, "lr": 1}']),
    (["Authorization: Bearer abc.def"], ["Authorization: ***"]),
    (["sh", "-c", "A_PASSWORD=x python t.py --hf-token y"], ["sh", "-c", "A_PASSWORD=*** python t.py --hf-token ***"]),
    (["--name", "hf_" + "a" * 34], ["--name", HIDDEN]),
    (["t.py --wandb-key 's3 kr3t' --api-token \"t0p\" --lr 1"], ["t.py --wandb-key *** --api-token *** --lr 1"]),
    (["t.py --wandb-key \\\n  abc \\\n  --lr 1"], ["t.py --wandb-key \\\n  *** \\\n  --lr 1"]),
    (['["t.py","--hf-token","abc","--lr","1"]'], ['["t.py","--hf-token",***,"--lr","1"]']),
    (["--password", "--x"], ["--password", HIDDEN]),
    (["--password=a b"], ["--password=***"]),
    (["TOKEN=a\\ b t.py"], ["TOKEN=*** t.py"]),
    (['TOKEN="a\\"b c" t.py'], ["TOKEN=*** t.py"]),
    (["TOKEN=\"a\"'bc'"], ["TOKEN=***"]),
    (["TOKEN=a'b c' t.py"], ["TOKEN=*** t.py"]),
    (["TOKEN='abc"], ["TOKEN=***"]),
    (['"TOKEN=abc" "t.py"'], ['"TOKEN=***" "t.py"']),
    (["{'token': ['abc','def'], 'lr': 1}"], ["{'token': ***, 'lr': 1}"]),
    (['{"token":{"value":"a}c"},"lr":1}'], ['{"token":***,"lr":1}']),
    (['{\\"token\\": \\"abc\\", \\"lr\\": 1}'], ['{\\"token\\": ***, \\"lr\\": 1}']),
    (["token=[abc"], ["token=***"]),
    (["-Dtoken=abc"], ["-Dtoken=***"]),
    (["Authorization: Token abc"], ["Authorization: ***"]),
    (["--header=Authorization: ApiKey abc"], ["--header=Authorization: ***"]),
    (["curl -H 'Authorization: Unheard-Of a=b, c=d' x"], ["curl -H 'Authorization: ***' x"]),
    (["Cookie: a=b; c=d"], ["Cookie: ***"]),
    (["https://user:p/ss@host/x"], ["https://***@host/x"]),
    (["https://user:p#s?@host"], ["https://***@host"]),
    (["https://user:p@ss@host/x@v1"], ["https://***@host/x@v1"]),
    (["git+https://ada:abc@host/x.git@v1"], ["git+https://***@host/x.git@v1"]),
    (["curl", "-u", "user:pw", "https://h"], ["curl", "-u", HIDDEN, "https://h"]),
    (["/usr/bin/curl", "-sSuuser:pw"], ["/usr/bin/curl", "-sSu***"]),
    (["curl -fu 'user:p w' https://h; docker run -u 1:1"], ["curl -fu *** https://h; docker run -u 1:1"]),
    (["sshpass", "-p", "abc", "ssh", "-p", "22", "h"], ["sshpass", "-p", HIDDEN, "ssh", "-p", "22", "h"]),
    (["sshpass -p abc ssh -p 22 h"], ["sshpass -p *** ssh -p 22 h"]),
]
PLAIN = [
    ["--pad-token", "<pad>", "--max-tokens", "2048", "--tokenizer", "gpt2", "--num-key-value-heads", "8"],
    ["--label-key", "label", "--tokens-per-batch=4096", "--keyboard", "de", "--key-dim", "64"],
    ["https://host/path?q=1", "run@host:/data", "--monkey=1", "--compass", "x", "--author", "ada"],
    ["--use-auth-token", "--lr", "1"],
    ["python t.py --use-auth-token --lr 1 --hf-token -v", "--api-token=true"],
    ["git+https://host:8080/x.git@v1", "https://h/@u/x", "https://[::1]:80/x@y", "https://h/x?to=a@b", "a://b:c"],
    ["docker", "run", "-u", "1000:1000", "image", "python", "-u", "t.py"],
    ["curl", "-u", "ada", "-o", "u:x", "https://h"],
    ["-monkey=1", "-Dlr=1", "mysql", "-p", "db"],
    ["{'pad_token': ['a', 'b'], 'max_tokens': [1, 2]}", 'echo "tokens=" $x', "authorization of a: b"],
]


@pytest.mark.parametrize(("words", "shown"), SECRET)
def test_a_secret_among_words_is_hidden(words: list[str], shown: list[str]) -> None:
    assert list(masked(words)) == shown and holds_secrets(words)
    assert masked(shown) == tuple(shown)


@pytest.mark.parametrize("words", PLAIN)
def test_what_only_sounds_like_a_secret_is_shown(words: list[str]) -> None:
    assert list(masked(words)) == words and not holds_secrets(words)


@pytest.mark.parametrize("name", ["WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASS", "GITHUB_PAT"])
def test_a_secret_variable_is_recorded_by_its_name(name: str) -> None:
    assert is_secret_name(name)
    assert without_secrets({name: "abc", "LR": "1"}) == {name: "not recorded", "LR": "1"}


def test_a_variable_with_credentials_in_its_address_is_recorded_by_its_name() -> None:
    assert without_secrets({"STORE": "https://u:p@h"}) == {"STORE": "not recorded"}
    assert without_secrets({"PWD": "/home/ada", "TOKENIZERS_PARALLELISM": "false"}) == {
        "PWD": "/home/ada",
        "TOKENIZERS_PARALLELISM": "false",
    }


KEPT_BACK = [
    ("WANDB__EXTRA_HTTP_HEADERS", '{"Authorization": "Bearer abc.def"}'),
    ("WANDB__EXTRA_HTTP_HEADERS", "{'X-Api-Key': 'abc'}"),
    ("WANDB__EXTRA_HTTP_HEADERS", "Cookie: session=abc"),
    ("WANDB_X", "Bearer abcdef123"),
    ("WANDB_X", "Basic YWRhOmh1bnRlcjI="),
    ("HF_ENDPOINT", "https://h/?token=abc"),
    ("HF_ENDPOINT", "https://h/x?a=1&access_token=abc"),
    ("HF_ENDPOINT", "https://h/x?sv=1&sig=abc%3D"),
    ("HF_ENDPOINT", "https://h/x?X-Amz-Signature=abc"),
    ("NCCL_FOO", "password=abc"),
    ("NCCL_FOO", "password = abc"),
    ("LANCEDB_CONN", "host=h&password=abc"),
    ("LANCEDB_CONN", "Server=h;User=u;Pwd=abc;"),
    ("LANCE_ARGS", "x --api-key abc"),
    ("HF_X", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----"),
    ("HF_X", "-----BEGIN PRIVATE KEY-----\\nabc"),
    ("HF_X", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"),
    ("HF_X", "eyJhbGciOiJkaXIifQ..abc.def.ghi"),
    *((name, "abc") for name in ("HF_BEARER", "HF_COOKIE", "HF_OAUTH_JWT", "HF_PASSCODE", "TORCH_X_CREDS")),
    ("WANDB_USERPASS", "abc"),
    ("LANCEDB_DBPASSWORD", "abc"),
]
RECORDED = {
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:128",
    "RUST_LOG": "info,lance::io=debug,hyper::auth=warn",
    "HF_ENDPOINT": "https://host:8080/path?revision=main&page=2",
    "NCCL_SOCKET_IFNAME": "=eth0,eth1",
    "NCCL_IB_HCA": "^mlx5_0:1",
    "LD_LIBRARY_PATH": "/usr/lib:/opt/cuda/lib64",
    "OMP_PLACES": "{0:4},{4:4}",
    "WANDB_NOTES": "basic training, a bearer of news; resnet50",
    "WANDB_TAGS": "pad_token=<pad>,max_tokens: 2048",
    "TORCH_LOGS": "+dynamo",
    "XLA_FLAGS": "--xla_gpu_autotune_level=4 --xla_dump_to=/tmp/x",
    "HF_CONFIG": '{"token": null, "use_auth_token": false}',
    "LAVENDER_RUN_DIR": "/runs/lr=1,key=2",
    "KMP_AFFINITY": "granularity=fine,compact,1,0",
}


@pytest.mark.parametrize(("name", "value"), KEPT_BACK)
def test_a_secret_within_a_value_keeps_all_of_it_off_the_disk(name: str, value: str) -> None:
    assert looks_secret(name, value)
    assert recorded({name: value, "NCCL_DEBUG": "INFO"}) == {"NCCL_DEBUG": "INFO"}


def test_ordinary_values_are_recorded() -> None:
    assert recorded(RECORDED) == dict(sorted(RECORDED.items()))


@given(
    st.lists(
        st.sampled_from(["token", "=", ":", " ", "'", '"', "&", "?", "a", "***", "--", "Bearer ", "sig=", "://", "\\"])
    )
)
def test_masking_what_looks_like_secrets_hides_nothing_twice(parts: list[str]) -> None:
    once = masked_text("".join(parts))
    assert masked_text(once) == once


def test_a_value_of_any_length_is_looked_through() -> None:
    assert not looks_secret("HF_X", "a=" * 2000 + "a") and looks_secret("HF_X", "a=" * 2000 + "token=abc")
    assert not looks_secret("HF_X", "a" * 4096)


HIDES_LONG_WORDS = """
from lavender_tui.model.secrets import masked
for part in (
    "d1/", "d1.", "d1-", "1-", "a", "?a-", "&a.", "eyJabcdefgh.", "eyJabcdefgh-", "password", "password/", "token=***",
    "token='", "token='a\\\\", "token=[", "token: ", "--token ", "--token '", "://a:", "://a@", "curl -u (", "-u",
    "basic ", "\\\\", "-----BEGIN ", "Authorization: ", "hf_", " ",
):
    for before in ("", "curl ", "token='", "sh --x "):
        masked([before + part * (100_000 // len(part)), "--token", part * 5_000])
"""


def test_a_long_word_costs_no_more_than_many_short_ones() -> None:
    """Some of them took minutes each; the limit is far from what all of them take now."""
    subprocess.run([sys.executable, "-c", HIDES_LONG_WORDS], check=True, timeout=300)


def test_a_plan_on_disk_or_on_the_screen_holds_no_secret() -> None:
    launch = Launch(backend="local", argv=("python", "--token=abc"), cwd="/", env={"MY_SECRET": "abc", "A": "b"})
    assert "abc" not in str(launch.to_json())
    assert launch.to_json()["env"] == {"MY_SECRET": "not recorded", "A": "b"}


@given(st.lists(st.text(max_size=30), max_size=5))
def test_masking_never_fails_and_masks_nothing_twice(words: list[str]) -> None:
    once = masked(words)
    assert len(once) == len(words)
    assert masked(once) == once


def test_the_settings_of_a_run_hold_no_secret() -> None:
    tree = {"config": {"lr": 0.1, "wandb": {"api_key": "abc"}, "pad_token": "<pad>", "num_key_value_heads": 8}}
    run = build.run(
        "r", build.checkpoint(keys=tree), launched_command=("python", "t.py", "--hf-token", "abc", "--seed", "1")
    )
    assert settings_of(run) == {
        "lr": "0.1", "wandb.api_key": "***", "pad_token": "<pad>", "num_key_value_heads": "8", "--hf-token": "***",
        "--seed": "1",
    }  # fmt: skip
