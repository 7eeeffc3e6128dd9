"""The tokenizers of other families by the libraries they were published with.

Used by compare_text.py and make_family_text_goldens.py. Requirements: as compare_text.py.
"""
import base64
import io
import os
import random
import re

import sentencepiece
import tiktoken
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors)

import make_text_goldens as goldens
from text_inputs import CHINESE, nfc, real_lines

LLAMA3_SPLIT = goldens.QWEN_SPLIT.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
QWEN_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [
    f"<|extra_{i}|>" for i in range(205)]


def qwen1_encoding(options):
    with open(os.path.join(options.testdata, "tokenizers/qwen1/qwen.tiktoken"), "rb") as file:
        pairs = [line.split() for line in file.read().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    specials = {name: len(ranks) + i for i, name in enumerate(QWEN_SPECIALS)}
    return tiktoken.Encoding("qwen", pat_str=goldens.QWEN_SPLIT, mergeable_ranks=ranks,
                             special_tokens=specials)


def qwen1_trusted_ids(encoding, text):
    """make_context puts special tokens as ids, so normalization never mixes them with text."""
    pattern = "(" + "|".join(re.escape(name) for name in QWEN_SPECIALS) + ")"
    ids = []
    for part in re.split(pattern, text):
        special = part in encoding._special_tokens  # pylint: disable=protected-access
        ids += encoding.encode(nfc(part), allowed_special="all" if special else set(),
                               disallowed_special=())
    return ids


def train_sentencepiece(seed, size, rule, remove_spaces):
    rng = random.Random(seed)
    lines = [line.strip("\n") for line in real_lines()] + [CHINESE] * 50
    lines += [goldens.make_text(rng).replace("\n", " ").replace("\x00", "") for _ in range(3000)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=size,
        byte_fallback=True, normalization_rule_name=rule, remove_extra_whitespaces=remove_spaces,
        split_digits=True, character_coverage=0.995, allow_whitespace_only_pieces=True,
        add_dummy_prefix=True, minloglevel=2)
    return model.getvalue()


def llama2_model(options):
    if options.llama2_model:
        with open(options.llama2_model, "rb") as file:
            return file.read()
    return train_sentencepiece(11, 4000, "identity", False)


def llama2_json(model, metaspace):
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    vocabulary = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    merges = []
    for piece in proto.pieces:
        if piece.type != 1:
            continue
        for cut in range(1, len(piece.piece)):
            left, right = piece.piece[:cut], piece.piece[cut:]
            if left in vocabulary and right in vocabulary:
                merges.append((-piece.score, vocabulary[left], vocabulary[right], left, right))
    merges = [(left, right) for _, _, _, left, right in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", "first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def byte_characters():
    """Byte -> character of the byte-level alphabet."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in kept}
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + len(table) - len(kept))
    return table


def llama3_ranks(options):
    if options.llama3_model:
        with open(options.llama3_model, "rb") as file:
            pairs = [line.split() for line in file.read().splitlines() if line]
        return {base64.b64decode(token): int(rank) for token, rank in pairs}
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    from tokenizers.trainers import BpeTrainer
    tokenizer.train_from_iterator(real_lines(), BpeTrainer(
        vocab_size=8000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    alphabet = {char: byte for byte, char in byte_characters().items()}
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    words = [bytes(alphabet[char] for char in token) for token, _ in vocabulary]
    return {word: rank for rank, word in enumerate(sorted(words, key=lambda word: len(word) > 1))}


def llama3_json(ranks, specials):
    characters = byte_characters()

    def spelled(token):
        return "".join(characters[byte] for byte in token)

    merges = []
    for token, rank in ranks.items():
        for cut in range(1, len(token)):
            if token[:cut] in ranks and token[cut:] in ranks:
                merges.append((rank, ranks[token[:cut]], ranks[token[cut:]],
                               spelled(token[:cut]), spelled(token[cut:])))
    tokenizer = Tokenizer(models.BPE({spelled(token): rank for token, rank in ranks.items()},
                                     [(left, right) for *_, left, right in sorted(merges)],
                                     ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[
            ("<|begin_of_text|>", len(ranks))])])
    if specials:
        tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in specials])
    return tokenizer
