"""Where news and paths may stand in a person's command: never where a shell or another language reads a program."""

from __future__ import annotations

import re
import shlex

import pytest

from lavender_tui.model.hook_words import PLACEHOLDER, objection
from lavender_tui.model.script_words import misplaced

REFUSED = """
sh -c 'echo {reason}'
/bin/bash -lc 'x {run}'
zsh -lc '{run}'
bash -eo pipefail -c 'x {run}'
bash -c -e 'echo {run}'
bash -c -- 'echo {run}'
bash --rcfile x +x -c '{run}'
fish --command='{run}'
busybox sh -c '{run}'
bash '-c' '{event}'
env A=1 sh -c '{path}'
env -i /bin/sh -ec '{run}'
env -S 'sh -c {run}'
timeout 5 bash -c '{run}'
nohup sudo -u x sh -c {reason}
docker exec box sh -c '{run}'
xargs sh -c '{run}'
find . -exec sh -c 'echo {run}' x ;
somebodys-runner sh -c '{run}'
su me -c 'echo {run}'
ssh host echo {run}
env A=1 ssh host {run}
make notify REASON={reason}
sbatch --wrap='echo {run}'
sbatch --wrap 'echo {run}'
sqlite3 runs.db "insert into news values ('{reason}')"
python -c 'print("{run}")'
python3 -Bc '{run}'
/usr/bin/python3.11 -I -W ignore -c '{run}'
perl -e '{run}'
perl -Mstrict -lne '{run}'
ruby -e '{run}'
php -r '{run}'
node -pe '{run}'
node --eval={run}
awk 'BEGIN { print "{run}" }'
sed -e 's/x/{run}/' file
sed 's/x/{run}/' file
pwsh -Command 'echo {run}'
sh {path}/hook.sh
{path}/hook.sh
{run} x
script -qec 'echo {run}' /dev/null
su me -lc '{run}'
env -i -vS'{run}'
sshpass -p x ssh host 'echo {run}'
gosu me ssh host {run}
somebodys-runner ssh host {run}
rsync -e '{run}' a b
rsync -ave '{run}' a b
tar --checkpoint-action=exec={run} x
tar -I {run} x
hyperfine {run}
sudo -s {run}
sudo -i {run}
git submodule foreach {run}
hush -c {run}
sg root -c 'echo {reason}'
sg root {reason}
env sg root -c 'echo {reason}'
sudo -u mail adb shell echo {reason}
ansible all -m shell -a 'echo {reason}'
salt '*' cmd.run 'echo {reason}'
adb shell 'echo {reason}'
/home/me/sdk/adb shell {reason}
swaymsg exec 'echo {run}'
i3-msg exec {run}
kitty @ send-text {run}
npx -c 'echo {run}'
nix-shell --run 'echo {run}'
socat - EXEC:'echo {run}'
socat - SYSTEM:{run}
ncat -c 'echo {run}' host 1
octave --eval 'x {run}'
octave --eval={run}
unheard-of {run}
unheard-of exec {run}
unheard-of '{run}: {reason}'
env BASH_ENV={reason} bash hook.sh
env ENV={run} sh hook.sh
env PROMPT_COMMAND={run} bash -i
env PYTHONSTARTUP={path} python3 -i
env LD_PRELOAD={path} true
docker run -e BASH_ENV={reason} box bash hook.sh
python -m timeit {reason}
python -m pdb -c {reason}
python -m unheard -c {reason}
perl -ne 'print' {run}
script -q /dev/null -- echo {run}
su me {path}
terminal-notifier -execute 'echo {run}'
find . -exec sg root -c 'echo {run}' ;
sh - {path}
sh -x - {path}
env sh - {path}
bash -c - 'echo {run}'
mail --exec={reason}
mail -E {reason}
mailx -S sendmail={run}
mailx -s news -Ssendmail={run} me
mail --exec 'echo {run}' me
curl -K {path}
curl -sK{path} https://a
env A=1 curl --config {path}
ntfy publish --wait-cmd {run} topic
"""
TAKEN = """
notify-send {run} {reason}
curl -d '{run}: {reason}' https://ntfy.sh/my-topic
/opt/hook.py --reason={reason}
mail -s {run} me@example.org
env A=1 notify-send {run}
sh -c 'echo "$1"' _ {reason}
sh -c 'echo "$LAVENDER_REASON" >> news.txt'
bash -lc 'x "$1" "$2"' _ {run} {reason}
bash -eo pipefail -c 'x "$1"' _ {run}
bash hook.sh -c {run}
python -c 'import sys; print(sys.argv[1])' {reason}
python -W ignore -c 'x' {run}
python3 hook.py -c {reason}
python -m mail {reason}
perl -Mstrict -e 'print @ARGV' {run}
notify-send python {reason}
notify-send watch {reason}
echo -e '{run}: {reason}'
logger -t lavender '{run}: {reason}'
ntfy publish topic '{run}: {reason}'
terminal-notifier -title {run} -message {reason}
env A=1 taskset -c 0-3 nice -n 5 curl -d '{run}: {reason}' https://ntfy.sh/my-topic
timeout 5s sudo -u me notify-send '{run}: {reason}'
docker exec box notify-send {run} {reason}
/opt/hook.sh -c '{run}: {reason}'
sh /opt/hook {run}
sh - /opt/hook {run}
python - {run}
mail -s {run} -a {path} me@example.org
curl -sS -H 'X-Run: {run}' -T {path} https://a
echo -E {run}
"""
FOR_A_COMMAND = """
my-trainer --from {run}
my-trainer tune {run} --out={path}/new trainer.path={path}
python -m trainer --from {run}
python -m my.trainer -c {run}
python t.py -c 'x {run}'
torchrun --nproc-per-node gpu t.py -c {run}
accelerate launch --config_file x.yaml t.py -c {run}
env OUT={path} RUN_PATH={path} python t.py {run}
docker run -v {path}:/out --gpus all image python t.py {run}
conda run -n me python t.py -c {run}
./train.sh -c {run}
torchrun --standalone --nproc_per_node=2 --log-dir {path} -m my.trainer -c {run}
torchrun --stand train --from {run}
torchrun --nnodes 1 train -c {run}
torchrun --no-python train --from {run}
python -m torch.distributed.run --nproc-per-node 2 t.py -c {run}
python -m cProfile -o {path}/out t.py -c {run}
accelerate launch --config_file {path} --cpu t.py --from {run}
accelerate launch --multi_gpu -m my.trainer --from {run}
accelerate launch train --from {run}
deepspeed --num_gpus=2 train --from {run}
sh - train.sh {run}
"""
NOT_FOR_A_COMMAND = """
sg root -c 'python t.py {run}'
sg root {run}
unheard-of -c {run}
unheard-of -lc {run}
unheard-of --exec={run}
unheard-of --shell-command {run}
unheard-of shell x {run}
unheard-of 'python t.py {run}'
unheard-of a;{run}
unheard-of SYSTEM:{run}
env BASH_ENV={run} bash t.sh
env LD_PRELOAD={run} python t.py
sbatch --export=ALL,BASH_ENV={run} t.sh
torchrun --no-python unheard-of -c {run}
uv run {path}
python -mtimeit {run}
env A=1 {path}/t.sh
torchrun {path}
torchrun --nproc-per-node 1 {path}
torchrun --nproc-per-node=1 --stand -- {path}
torchrun -m {run}
torchrun -r 3 -t3 {path}
torchrun --no-python {path}
torchrun --no_py sh -c {run}
env A=1 torchrun --standalone {path}/t.py
python -m torch.distributed.run {path}
python -Im torch.distributed.run --nnodes 1 {path}
python -m torch.distributed.launch --use-env {path}
python -m torch.distributed.run --no-python sh -c {path}
env A=1 python -m torch.distributed.run --no-python sh {path}
python -m cProfile {path}
python -m cProfile -s time {path}
python -m coverage run {path}
accelerate launch {path}
accelerate launch --cpu {path}
accelerate launch --cpu {path} t.py
accelerate launch -m {run}
deepspeed --num_gpus 2 {path}
sh - {path}
env sh - {path}
"""


@pytest.mark.parametrize("command", REFUSED.strip().splitlines())
def test_a_part_of_a_program_is_no_place_for_it(command: str) -> None:
    found = objection(shlex.split(command))
    assert found is not None, command
    assert "LAVENDER_" in found[1]


@pytest.mark.parametrize("command", TAKEN.strip().splitlines())
def test_a_word_of_its_own_and_a_part_of_a_plain_argument_are(command: str) -> None:
    assert objection(shlex.split(command)) is None


@pytest.mark.parametrize("command", FOR_A_COMMAND.strip().splitlines())
def test_a_training_of_any_name_gets_a_path_as_a_plain_word(command: str) -> None:
    assert misplaced(shlex.split(command), PLACEHOLDER) is None


@pytest.mark.parametrize("command", NOT_FOR_A_COMMAND.strip().splitlines())
def test_a_program_of_any_name_gets_no_path_where_it_may_be_code(command: str) -> None:
    assert misplaced(shlex.split(command), PLACEHOLDER) is not None


def test_what_is_not_known_is_said_as_that() -> None:
    what, hint = objection(["unheard-of", "{reason}"]) or ("", "")
    assert what == "{reason} is given to unheard-of, and whether that runs what it gets isn't known"
    assert "sh hook.sh {reason}" in hint and "LAVENDER_REASON" in hint


def test_the_right_form_is_said() -> None:
    what, hint = objection(["sh", "-c", "echo {reason}"]) or ("", "")
    assert what.startswith("{reason} stands in what sh reads as a program")
    assert "sh -c 'echo \"$1\"' _ {reason}" in hint and '"$LAVENDER_REASON"' in hint
    assert "sys.argv[1])' {run}" in (objection(["python3", "-c", "print('{run}')"]) or ("", ""))[1]


@pytest.mark.parametrize("command", ["true {nope}", "{nope}", "curl -d '{run}: {resaon}' https://a", "a {Run}"])
def test_what_no_news_has_is_refused_with_what_it_has(command: str) -> None:
    what, hint = objection(shlex.split(command)) or ("", "")
    assert re.match(r"\{(nope|resaon|Run)\} is nothing that a piece of news has", what) and "{reason}" in hint


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'echo ${HOME} {a,b}; awk {print}'", "awk '{print}' {path}", "git log @{u}", "find . -exec a {} +",
        """curl -d '{"text": "{run}"}' https://a""", "tmpl {{run_name}}", "date +%{x}", "echo ${HOME} {1}",
    ],
)  # fmt: skip
def test_braces_of_others_stay_theirs(command: str) -> None:
    assert objection(shlex.split(command)) is None


def test_no_word_has_a_nul() -> None:
    assert objection(["notify-send", "a\0b"]) == ("a NUL can be in no command", "Leave it out")
