"""Models of the real shape (XLM-RoBERTa), small and untrained, saved as a commit of their repository would be."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForSequenceClassification, XLMRobertaModel

from knowledge import model_files

_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
_TEXTS = ["键盘怎么清洁？先断电，再用软毛刷清洁键盘。", "How do I clean the keyboard? Unplug it first."]


def save_embedder(folder: Path, *, dimension: int = 32) -> None:
    """Write an embedding model into `folder`."""
    _save(folder, XLMRobertaModel(_config(dimension), add_pooling_layer=False))


def save_reranker(folder: Path) -> None:
    """Write a model that judges pairs into `folder`."""
    _save(folder, XLMRobertaForSequenceClassification(_config(32, num_labels=1)))


def _config(dimension: int, **values: int) -> XLMRobertaConfig:
    torch.manual_seed(7)
    return XLMRobertaConfig(
        vocab_size=600,
        hidden_size=dimension,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=8194,
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        # Weights this far apart: texts that differ have vectors that do.
        initializer_range=0.5,
        **values,
    )


def _save(folder: Path, model: torch.nn.Module) -> None:
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    model_files.write_manifest(folder, [path.name for path in folder.iterdir()])


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # Every byte is a token: no text is unknown.
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), _SPECIAL, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=8192, cls_token="<s>", sep_token="</s>", **names
    )
