"""Each way to break a study gives one error that says where, what and how to mend it.

A case replaces one piece of small_study.TEXT; the sign § marks the line that must be named.
"""

import pytest
from small_study import TEXT, small_study

from linvit.catalog import DISTILLS, Distill
from linvit.errors import LinvitError
from linvit.study.config import load_study

OPERATORS = "operator: [softmax, relu, mhla]"
COMPONENTS = "    purpose: which components to copy"
BODY = TEXT[TEXT.index("    size: [micro]") : TEXT.index("  scratch:")]
SCRATCH = TEXT[TEXT.index("    operator: [elu]") : TEXT.index("    dataset: [fashion-500]")]
FEWSHOT = "    epochs: 6\n"

CASES = [
    # (name, text to replace, replacement, key that is named, further words)
    ("operator", OPERATORS, "§operator: [rellu]", "grids.components.operator",
     ["'rellu' is not an operator; did you mean 'relu'? allowed: softmax, elu, relu"]),
    ("operator in a long list", OPERATORS, "operator:\n      - elu\n      -§ rellu",
     "grids.components.operator", ["did you mean 'relu'"]),
    ("operator without a near name", OPERATORS, "§operator: [xyz]", "grids.components.operator",
     ["'xyz' is not an operator; allowed: softmax"]),
    ("size", "size: [micro]", "§size: [mikro]", "grids.components.size",
     ["'mikro'", "did you mean 'micro'", "tiny, small, base, micro, wide"]),
    ("dataset", "dataset: [mnist-200]", "§dataset: [mnist]", "grids.components.dataset",
     ["'mnist'", "allowed: fashion-source, mnist-200, fashion-500"]),
    ("init", "init: [random, mlpcopy]", "§init: [mlp_copy]", "grids.components.init",
     ["'mlp_copy'", "did you mean 'mlpcopy'", "allowed: random, copy"]),
    ("distill", "distill: [none, output]", "§distill: [outputs]", "grids.components.distill",
     ["'outputs'", "did you mean 'output'"]),
    ("source", "source: [fashion]", "§source: [fasion]", "grids.components.source",
     ["'fasion'", "did you mean 'fashion'? allowed: fashion, mine"]),
    ("recipe of a dataset", "recipe: fewshot, lambda: 10", "§recipe: few, lambda: 10",
     "datasets.mnist-200.recipe", ["'few' is not a recipe", "pretrain, fewshot"]),
    ("recipe of a source", "recipe: pretrain, seed", "§recipe: pre, seed",
     "sources.fashion.pretrain.recipe", ["'pre' is not a recipe", "pretrain, fewshot"]),
    ("size of a source", "size: micro, recipe", "§size: nano, recipe",
     "sources.fashion.pretrain.size", ["'nano' is not a size", "allowed: tiny"]),
    ("dataset of a source", "dataset: fashion-source", "§dataset: fashion",
     "sources.fashion.pretrain.dataset", ["'fashion' is not a dataset", "fashion-source"]),
    ("size of a file", "safetensors, size: micro", "§safetensors, size: nano",
     "sources.mine.size", ["'nano' is not a size"]),
    ("from", "from: mnist-5k", "§from: mnist", "datasets.mnist-200.from",
     ["'mnist' is not a data set", "allowed: fashion-mnist, mnist-5k"]),
    ("data folder of an unknown set", "  fashion-mnist: /data", "  §mnist: /data", "data.mnist",
     ["'mnist' is not a data set", "allowed: fashion-mnist"]),
    ("keep_models", "keep_models: [scratch]", "§keep_models: [scrach]", "keep_models",
     ["'scrach' is not a grid", "allowed: components, scratch"]),
    ("unknown key of a study", "keep_models:", "§keep_model:", "keep_model",
     ["did you mean 'keep_models'", "allowed: study, device"]),
    ("unknown key of a grid", OPERATORS, "§operators: [relu]\n    operator: [relu]",
     "grids.components.operators", ["did you mean 'operator'", "allowed: purpose, operator"]),
    ("unknown key of a recipe", FEWSHOT, FEWSHOT + "    §learning_rate: 1\n",
     "recipes.fewshot.learning_rate", ["'learning_rate' is not a key", "lr, min_lr"]),
    ("unknown key of a view", "mean: [0.286], std: [0.353], shift: 2",
     "mean: [0.286], std: [0.353], §shifts: 2", "recipes.fewshot.view.shifts",
     ["did you mean 'shift'", "allowed: mean, std, shift, hflip"]),
    ("unknown key of a source", "mine: {file:", "mine: {§path: a, file:", "sources.mine.path",
     ["'path' is not a key here", "allowed: pretrain, file, size"]),
    ("device", "device: cpu-fp32", "§device: cpu", "device",
     ["'cpu' is not one of the choices", "allowed: cpu-fp32, cuda-bf16"]),
    ("tap", "tap: post", "§tap: after", "distillation.tap", ["'after'", "allowed: post, pre"]),
    ("train", "train: source", "§train: all", "datasets.fashion-source.train",
     ["'all'", "allowed: source, pool, fewshot"]),
    ("missing key", FEWSHOT, "", "recipes.fewshot.epochs", ["is missing", "add it"]),
    ("missing purpose", COMPONENTS + "\n", "", "grids.components.purpose", ["is missing"]),
    ("no value", OPERATORS, "§operator:", "grids.components.operator", ["has no value", "remove"]),
    ("text for a number", FEWSHOT, "    §epochs: many\n", "recipes.fewshot.epochs",
     ["'many' must be a whole number"]),
    ("fraction of an epoch", FEWSHOT, "    §epochs: 6.5\n", "recipes.fewshot.epochs",
     ["6.5 must be a whole number"]),
    ("truth value for a number", FEWSHOT, "    §epochs: yes\n", "recipes.fewshot.epochs",
     ["True must be a whole number"]),
    ("number without a point", "    lr: 1.0e-3", "    §lr: 1e-3", "recipes.fewshot.lr",
     ["'1e-3' must be a number", "write it with a point: 1.0e-3"]),
    ("endless number", "    weight_decay: 0.05", "    §weight_decay: .inf",
     "recipes.fewshot.weight_decay", ["inf must be a finite number"]),
    ("a word for a list", OPERATORS, "§operator: relu", "grids.components.operator",
     ["'relu' must be a list in [brackets]: [relu]"]),
    ("a list for a block", "distillation: {tap: post}", "§distillation: [post]", "distillation",
     ["must be a block of keys"]),
    ("a number for a name", "study: small", "§study: 2024", "study", ["put it in quotes"]),
    ("a truth value in a list", "distill: [none, output]", "§distill: [no]",
     "grids.components.distill", ["False must be text", "quotes"]),
    ("negative seed", "seeds: [0, 1]", "§seeds: [0, -1]", "seeds", ["-1", "must be >= 0"]),
    ("huge seed", "seeds: [0, 1]", "§seeds: [4294967296]", "seeds", ["must be < 4294967296"]),
    ("seed twice", "seeds: [0, 1]", "§seeds: [0, 1, 1]", "seeds", ["1 is listed twice", "keep"]),
    ("seed of a grid twice", OPERATORS, OPERATORS + "\n    §seeds: [3, 3]",
     "grids.components.seeds", ["3 is listed twice"]),
    ("no seeds", "seeds: [0, 1]", "§seeds: []", "seeds", ["is empty"]),
    ("empty axis", "size: [micro]", "§size: []", "grids.components.size", ["is empty", "remove"]),
    ("no grids", TEXT[TEXT.index("grids:"):TEXT.index("keep_models")], "§grids: {}\n", "grids",
     ["is empty"]),
    ("operator twice", OPERATORS, "§operator: [relu, relu]", "grids.components.operator",
     ["'relu' is listed twice"]),
    ("lambda twice", OPERATORS, OPERATORS + "\n    §lambda: [1, 1.0]",
     "grids.components.lambda", ["1.0 is listed twice"]),
    ("key twice", FEWSHOT, FEWSHOT + "    §epochs: 7\n", "epochs", ["given twice", "line "]),
    ("grid twice", "  scratch:\n", "  §components:\n", "components", ["given twice", "keep one"]),
    ("same cells twice", "  scratch:\n",
     "  §again:\n    purpose: p\n    operator: [mhla, softmax, relu]\n    size: [micro]\n"
     "    dataset: [mnist-200]\n    init: [mlpcopy, random]\n    distill: [output, none]\n"
     "    source: [fashion]\n  scratch:\n",
     "grids.again", ["has exactly the cells of grids.components", "keep one"]),
    ("init without a source", "    init: [random]", "    §init: [random, copy]",
     "grids.scratch.init", ["'copy' needs a source", "add source: [...]"]),
    ("distill without a source", "    distill: [none]\n",
     "    §distill: [none, output]\n    lambda: [1]\n", "grids.scratch.distill",
     ["'output' needs a source"]),
    ("lambda without distillation", "    distill: [none]\n",
     "    distill: [none]\n    §lambda: [1]\n", "grids.scratch.lambda",
     ["[1.0] weighs nothing", "distill is only none"]),
    ("lambda of zero", OPERATORS, OPERATORS + "\n    §lambda: [0]", "grids.components.lambda",
     ["0", "must be > 0"]),
    ("negative lambda", "lambda: 10", "§lambda: -10", "datasets.mnist-200.lambda",
     ["-10", "must be > 0"]),
    ("lambda with too many digits", "lambda: 10", "§lambda: 1.2345678",
     "datasets.mnist-200.lambda", ["at most six digits"]),
    ("no lambda anywhere", ", lambda: 10", "", "grids.components.dataset",
     ["'mnist-200' is distilled on here", "give datasets.mnist-200 or this grid a lambda"]),
    ("dataset without a recipe", ", recipe: fewshot, lambda: 10", ", lambda: 10",
     "grids.components.dataset", ["give datasets.mnist-200 a recipe"]),
    ("width of the source", BODY, BODY.replace("micro", "wide").replace("source", "§source"),
     "grids.components.source", ["'fashion' has embed_dim 64, size wide has 96", "must be equal"]),
    ("images of the teacher", BODY, BODY.replace("micro", "large").replace("source", "§source"),
     "grids.components.source", ["'fashion' has img_size 28, size large has 56"]),
    ("no window", SCRATCH, "    §operator: [elu, mhla]\n    size: [fine]\n",
     "grids.scratch.operator", ["'mhla' finds no window in the 7 x 7 patches of size fine"]),
    ("heads", "embed_dim: 96, depth: 4, num_heads: 2", "embed_dim: 96, depth: 4, §num_heads: 5",
     "sizes.wide.num_heads", ["5 does not divide embed_dim 96"]),
    ("patch", "patch_size: 4", "§patch_size: 5", "sizes.fine.patch_size",
     ["5 does not divide img_size 28"]),
    ("zero depth", "embed_dim: 96, depth: 4", "embed_dim: 96, §depth: 0", "sizes.wide.depth",
     ["0 is out of range; must be >= 1"]),
    ("built-in size", "  large: {", "  §tiny: {", "sizes.tiny", ["'tiny' is built in"]),
    ("lr", "    lr: 1.0e-3", "    §lr: 0", "recipes.fewshot.lr", ["must be > 0"]),
    ("min_lr", "    min_lr: 1.0e-5", "    §min_lr: 0.1", "recipes.fewshot.min_lr",
     ["0.1 must be at most lr (0.001)"]),
    ("epochs", FEWSHOT, "    §epochs: 0\n", "recipes.fewshot.epochs", ["must be >= 1"]),
    ("warm-up", "    warmup_epochs: 1\n", "    §warmup_epochs: 6\n",
     "recipes.fewshot.warmup_epochs", ["6 must be less than epochs (6)"]),
    ("batch_size", "    batch_size: 50", "    §batch_size: 0", "recipes.fewshot.batch_size",
     ["must be >= 1"]),
    ("batch larger than the data", "    batch_size: 50", "    §batch_size: 201",
     "recipes.fewshot.batch_size", ["201 must be at most the 200 images of mnist-200"]),
    ("eval_every", "    eval_every: 3", "    §eval_every: 7", "recipes.fewshot.eval_every",
     ["7 must be at most epochs (6)"]),
    ("clip_grad", "    clip_grad: 1.0\n", "    §clip_grad: 0\n", "recipes.fewshot.clip_grad",
     ["must be > 0"]),
    ("drop_path", "drop_path: 0.0", "§drop_path: 1.0", "recipes.fewshot.drop_path",
     ["must be < 1"]),
    ("label_smoothing", "label_smoothing: 0.0", "§label_smoothing: -0.1",
     "recipes.fewshot.label_smoothing", ["must be >= 0"]),
    ("negative shift", "shift: 2", "§shift: -1", "recipes.fewshot.view.shift", ["must be >= 0"]),
    ("shift beyond the image", "shift: 2", "§shift: 28", "recipes.fewshot.view.shift",
     ["28 must be less than the 28 pixels"]),
    ("std", "std: [0.353], shift", "§std: [0], shift", "recipes.fewshot.view.std",
     ["must be > 0"]),
    ("std of other channels", "std: [0.353], shift", "§std: [0.3, 0.3], shift",
     "recipes.fewshot.view.std", ["[0.3, 0.3] must have one number per channel"]),
    ("mean of other channels", "view: {mean: [0.286], std: [0.353], shift",
     "§view: {mean: [0.2, 0.2], std: [0.3, 0.3], shift", "recipes.fewshot.view.mean",
     ["[0.2, 0.2] must have 1 number(s)", "channel of size micro"]),
    ("too many shots", "shots: 20", "§shots: 101", "datasets.mnist-200.shots",
     ["101 images per class", "pool of mnist-5k", "at most 100"]),
    ("no shots", "shots: 20, ", "", "datasets.mnist-200", ["train: fewshot needs shots"]),
    ("shots that mean nothing", "train: source", "train: source, §shots: 5",
     "datasets.fashion-source.shots", ["5 has no meaning with train: source", "remove"]),
    ("split that is not there", "train: fewshot, shots: 20", "§train: source",
     "datasets.mnist-200.train", ["'source' needs a split that mnist-5k lacks", "pool, fewshot"]),
    ("parent folder", "/data/fashion", "§/data/../etc", "data.fashion-mnist",
     ["'/data/../etc' is not a plain path"]),
    ("command in a path", "weights/mine.safetensors", "§weights/$(id)", "sources.mine.file",
     ["is not a plain path", "shell"]),
    ("line break in a path", "/data/fashion", '§"/data\\nfashion"', "data.fashion-mnist",
     ["is not a plain path"]),
    ("study outside results", "study: small", "§study: ../small", "study",
     ["'../small' is not a name: use a-z"]),
    ("absolute study", "study: small", "§study: /tmp/small", "study", ["is not a name"]),
    ("study in capitals", "study: small", "§study: Small", "study", ["'Small' is not a name"]),
    ("study called data", "study: small", "§study: data", "study", ["choose another name"]),
    ("name of a grid", "  scratch:\n", "  §a grid:\n", "grids.a grid", ["is not a name"]),
    ("name of a dataset", "  fashion-500:", "  §fashion/500:", "datasets.fashion/500",
     ["is not a name"]),
    ("source called scratch", "  mine: {", "  §scratch: {", "sources.scratch",
     ["choose another name"]),
    ("empty source", "mine: {file: weights/mine.safetensors, size: micro}", "§mine: {}",
     "sources.mine", ["either pretrain, or file and size"]),
    ("file without a size", ".safetensors, size: micro", "§.safetensors", "sources.mine",
     ["file needs size"]),
    ("size beside pretrain", "seed: 0}}", "seed: 0}, §size: micro}", "sources.fashion.size",
     ["goes inside pretrain"]),
    ("syntax", "seeds: [0, 1]", "seeds: [0, 1\n§sizes: 3", "", ["not valid YAML"]),
    ("tab", "  micro: {", "§\tmicro: {", "", ["not valid YAML"]),
    ("Python tag", "seeds: [0, 1]", "§seeds: !!python/object:os.system [0]", "",
     ["not valid YAML"]),
    ("unknown alias", "seeds: [0, 1]", "§seeds: *all", "", ["not valid YAML", "alias"]),
    ("endless alias", "seeds: [0, 1]", "§seeds: &a [0, *a]", "", ["aliases", "without end"]),
    ("alias of itself", "distillation: {tap: post}", "distillation: &d {<<: *d}", "",
     ["without end"]),
    ("nested without end", "keep_models: [scratch]", "keep_models: " + "[" * 3000, "",
     ["without end"]),
    ("impossible date", "study: small", "study: 2024-13-01", "", ["month", "quotes"]),
    ("date", "study: small", "§study: 2024-01-01", "study", ["must be text", "a date", "quotes"]),
    ("endless text", "study: small", "§study: " + "a" * 5000, "study", ["'aaaa", "aaa... is not"]),
    ("list as a key", "seeds: [0, 1]", "seeds: [0]\n§[a]: 1", "", ["a key must be a plain word"]),
    ("number as a key", "seeds: [0, 1]", "seeds: [0]\n§1: 1", "study file",
     ["the key 1 is no text", "quotes"]),
]  # fmt: skip


def broken(old, new):
    """(text, expected line or None)"""
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    line = text[: text.index("§")].count("\n") + 1 if "§" in text else None
    return text.replace("§", ""), line


def complaint(path):
    with pytest.raises(LinvitError) as caught:
        load_study(path)
    return str(caught.value)


def test_there_are_many_cases():
    assert len({case[0] for case in CASES}) == len(CASES) >= 45


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_broken_study(case, tmp_path, monkeypatch):
    _, old, new, key, words = case
    text, line = broken(old, new)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(text)
    message = complaint(tmp_path / "study.yaml")
    assert "\n" not in message
    assert message.startswith(f"study.yaml:{line}: " if line else "study.yaml:"), message
    assert f": {key}" in message
    assert all(word in message for word in words), message


def test_format_of_a_complaint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(TEXT.replace("[none, output]", "[none, outptu]"))
    assert complaint("study.yaml") == (
        "study.yaml:49: grids.components.distill: 'outptu' is not a distillation; "
        "did you mean 'output'? allowed: none, output"
    )


def test_all_problems_are_listed_in_the_order_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = TEXT.replace("[softmax, relu, mhla]", "[relu, rellu, ellu]")
    text = text.replace("shots: 20", "shots: 999")
    (tmp_path / "study.yaml").write_text(text)
    lines = complaint("study.yaml").splitlines()
    assert lines[0] == "3 problems in the study"
    assert [line.split(":")[2].strip() for line in lines[1:]] == [
        "datasets.mnist-200.shots",
        "grids.components.operator",
        "grids.components.operator",
    ]


def test_a_missing_file_and_other_bytes(tmp_path):
    assert "cannot read the study: No such file" in complaint(tmp_path / "no.yaml")
    path = tmp_path / "study.yaml"
    path.write_bytes(b"study: \xff\xfe")
    assert "is not UTF-8 text" in complaint(path)
    path.write_text("")
    assert "a study is a block of keys" in complaint(path)
    path.write_text("[1, 2]")
    assert "a study is a block of keys" in complaint(path)


def test_aliases_cannot_explode(tmp_path):
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path = tmp_path / "study.yaml"
    path.write_text("\n".join(lines))
    assert "repeat without end" in complaint(path)


def test_a_distillation_of_maps_needs_operators_that_have_one(tmp_path, monkeypatch):
    monkeypatch.setitem(DISTILLS, "map", Distill(1, needs_map=True))
    path = tmp_path / "study.yaml"
    path.write_text(TEXT.replace("distill: [none, output]", "distill: [none, map]"))
    message = complaint(path)
    assert ":49: grids.components.distill: 'map' needs an attention map" in message
    assert "mhla" in message
    assert "allowed operators: softmax, elu, relu, inline" in message


class TestMergedByAWorkflow:
    """A workflow passes the merged config and the files and flags that it came from."""

    @pytest.fixture(autouse=True)
    def files(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "config.yaml").write_text(TEXT)
        (tmp_path / "mine.yaml").write_text("recipes:\n  fewshot:\n    epochs: 0\n")
        self.files = [tmp_path / "config.yaml", tmp_path / "mine.yaml"]

    def says(self, config, files):
        with pytest.raises(LinvitError) as caught:
            load_study(config, files=files)
        return str(caught.value)

    def test_the_last_file_with_the_key_is_named(self):
        message = self.says(small_study(recipes__fewshot__epochs=0), self.files)
        assert message.startswith("mine.yaml:3: recipes.fewshot.epochs: 0 is out of range")

    def test_an_earlier_file_is_named_for_what_only_it_has(self):
        config = small_study(recipes__fewshot__epochs=6, recipes__fewshot__lr=0.001)
        config["keep_models"] = ["nothing"]
        (self.files[0]).write_text(TEXT.replace("[scratch]", "[nothing]"))
        assert self.says(config, self.files).startswith("config.yaml:59: keep_models: 'nothing'")

    def test_what_the_command_line_gives_has_no_line(self):
        message = self.says(small_study(device="gpu"), self.files[:1])
        assert message.startswith("--config (on the command line, no line): device: 'gpu'")
        message = self.says(small_study(extra=1), self.files[:1])
        assert message.startswith("--config (on the command line, no line): extra: 'extra'")

    def test_without_files_there_is_no_line(self):
        message = self.says(small_study(device="gpu"), [])
        assert message.startswith("study (no file): device: 'gpu'")

    def test_a_key_given_twice_in_any_file_is_refused(self):
        self.files[1].write_text("device: cpu-fp32\ndevice: cuda-bf16\n")
        message = self.says(small_study(device="cuda-bf16"), self.files)
        assert message.startswith("mine.yaml:2: device: this key is given twice, first in line 1")
