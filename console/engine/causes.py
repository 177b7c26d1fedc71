"""The table of known causes: what SGLang, torch, NCCL and the hub say when a start or a server fails, and what to do about it.

Texts are substrings or patterns of real messages of SGLang 0.5.10 to 0.5.23, torch 2.x and transformers. The first rule that
matches wins, so the specific stand before the general.
"""

# ruff: noqa: E501, S108 - a table of messages, one rule an entry; /dev/shm is named, not used

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One known cause.

    ``follower``: it is what other processes say once one has failed, never a cause while there is another. ``draft``: the rule holds
    only for a traceback through the drafter's code (``True``) or only elsewhere (``False``).
    """

    kind: str
    pattern: re.Pattern[str]
    advice: str
    follower: bool = False
    draft: bool | None = None


def _rule(kind: str, pattern: str, advice: str, *, follower: bool = False, draft: bool | None = None) -> Rule:
    return Rule(kind, re.compile(pattern), advice, follower, draft)


_CHECK = "see `console check DRAFTER --target MODEL`"
_NOT_THERE = (
    r"Repo id must be in the form|is not a local folder and is not a valid model identifier|does not appear to have a file named"
    r"|RepositoryNotFoundError|Can't load (?:the )?config(?:uration)? (?:of|for)|Incorrect path_or_model_id|No such file or directory: '[^']*(?:config\.json|safetensors|\.bin)'"
)

RULES: tuple[Rule, ...] = (
    # ------------------------------------------------------------------------------------ memory
    _rule("oom", r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA error: out of memory|cudaErrorMemoryAllocation", ""),
    _rule("kv-pool-too-small", r"Not enough memory\. Please try to increase --mem-fraction-static|Loading weights? .*leaves no memory for the KV",
          "nothing is left for the KV pool: raise --mem-fraction-static, or lower --cuda-graph-max-bs-decode and --max-running-requests, or use more GPUs"),
    _rule("kv-pool-exhausted", r"(?:Prefill|Decode) out of memory|alloc_req_slots runs out of memory|alloc_token_slots",
          "the KV pool ran empty: lower --max-running-requests or --context-length, or raise --mem-fraction-static"),
    _rule("host-memory", r"Cannot allocate memory|DefaultCPUAllocator: can't allocate memory|^MemoryError",
          "the host's memory is full: see what else runs, and the container's memory limit"),
    _rule("shared-memory", r"/dev/shm|unable to (?:open|allocate) shared memory|No space left on device: '/psm_",
          "shared memory is too small: give the container a larger --shm-size, or clear /dev/shm"),
    _rule("disk-full", r"No space left on device|Not enough free disk space", "free disk space where the model cache and the logs live"),
    # ------------------------------------------------------------------------------------ drafter
    _rule("adaptive-tier-too-deep", r"shared logits buffer holds \d+ rows but caller needs \d+",
          "a candidate depth is deeper than --speculative-num-steps, for which SGLang up to 0.5.17 sizes its buffer: launch with the deepest"
          " candidate as initial depth and set the wanted depth afterwards"),
    _rule("draft-missing", _NOT_THERE, "the drafter's folder or repository is not there: correct --speculative-draft-model-path", draft=True),
    _rule("draft-context", r"context_length \(\d+\) is greater than the derived context_length",
          "the drafter's context window is shorter than the target's: lower --context-length to it, or set"
          " SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 and expect low acceptance beyond it"),
    _rule("draft-vocabulary", r"size mismatch for lm_head|requires the draft and target to share one vocab|hot_token_id|d2t",
          f"the drafter's vocabulary does not fit: draft_vocab_size in its config must equal the rows of lm_head.weight and the length of d2t; {_CHECK}"),
    _rule("draft-class", r"midlayer\.|KeyError: '(?:model\.)?(?:layers|fc|d2t|midlayer)[\w.]*'",
          f"the drafter's tensor names are EAGLE-3, the class name in its config.json is not: architectures must name an EAGLE-3 class; {_CHECK}"),
    _rule("draft-shape", r"mat1 and mat2 shapes cannot be multiplied|Check failed: input\.size\(1\) == weight\.size\(0\)|size mismatch"
          r"|Attempted to load weight|shape mismatch|must match the size of tensor|shape '\[.*\]' is invalid|start .* exceeds dimension size|AssertionError: .*\.shape",
          f"the drafter does not fit this target (another hidden size or number of captured layers); {_CHECK}", draft=True),
    _rule("target-without-eagle3", r"does not implement set_eagle3_layers_to_capture|has no attribute 'set_eagle3_layers_to_capture'",
          "this SGLang cannot capture hidden states of this target: take a newer SGLang, or speculate with another algorithm"),
    _rule("draft-layers", r"EAGLE3 currently only supports 1 layer", "an MLA drafter may have one layer only: take another drafter"),
    _rule("draft-path-forgotten", r"set_embed|set_embed_and_head|get_embed_and_head",
          "no usable drafter was given: set --speculative-draft-model-path (only targets with bundled MTP layers may omit it)"),
    _rule("draft-backend", r"EAGLE is not supported in (?:decode )?attention backend|backend requires MLA model",
          "the attention backend cannot run this drafter: set --speculative-draft-attention-backend (fa3, flashinfer or triton)"),
    # ------------------------------------------------------------------------------------ combinations of arguments
    _rule("speculation-incomplete", r"'>' not supported between instances of 'NoneType' and 'int'",
          "give --speculative-num-steps, --speculative-eagle-topk and --speculative-num-draft-tokens, all three or none"),
    _rule("topk-unsupported", r"only supports topk ?= ?1|only support topk|topk > 1|topk>1",
          "this attention backend drafts chains only: set --speculative-eagle-topk 1, or take flashinfer, fa3 or triton"),
    _rule("draft-tokens-power-of-2", r"arange's range must be a power of 2", "this kernel wants a power of two: set --speculative-num-draft-tokens to 2, 4 or 8"),
    _rule("backend-without-speculation", r"HybridAttentionBackend does not support speculative|does not support speculative decoding|not support(?:ed)? (?:with |for )?specul",
          "this combination cannot speculate: take one attention backend for prefill and decode, or another backend"),
    _rule("adaptive-config", r"candidate_steps|speculative_adaptive_config|adaptive.*must",
          'mend the file of --speculative-adaptive-config: {"1": {"candidate_steps": [1, 3, 5]}}, the initial depth among its steps'),
    _rule("unsupported-model", r"Model architectures? .* (?:are|is) not supported|has no SGLang implementation|does not recognize this architecture",
          "this SGLang does not know the model's class: take a newer SGLang, or correct architectures in config.json"),
    _rule("tensor-parallel", r"is not divisible by|must be divisible by|divisible by (?:the )?(?:tp|tensor)",
          "the model cannot be cut into this many ranks: choose a --tp that divides its heads and its drafter's heads"),
    _rule("quantization", r"[Qq]uantization (?:method|config).*(?:not supported|mismatch|does not match|Unknown)|Unknown quantization method",
          "target and drafter need not share a quantisation: set --quantization and --speculative-draft-model-quantization (unquant) apart"),
    # ------------------------------------------------------------------------------------ files and the hub
    _rule("model-missing", _NOT_THERE, "the model's folder or repository is not there: correct --model-path", draft=False),
    _rule("hub-refused", r"GatedRepoError|401 Client Error|403 Client Error|Access to model .* is restricted|gated repo",
          "the hub refuses: accept the licence on the model's page and give HF_TOKEN in the engine's environment"),
    _rule("hub-unreachable", r"couldn't connect to 'https://|LocalEntryNotFoundError|OfflineModeIsEnabled|Failed to resolve 'hugg|ConnectionError.*hugg",
          "the hub cannot be reached: use a local folder, or fetch the files first with `console pull`"),
    _rule("file-unreadable", r"HeaderTooLarge|Error while deserializing header|MetadataIncompleteBuffer|InvalidHeader|UnpicklingError|invalid load key",
          "a weight file is no whole safetensors file (a Git LFS pointer or a cut download): fetch it again"),
    _rule("permission", r"PermissionError|Permission denied", "the engine's user may not read or write that path: correct its owner or mode"),
    # ------------------------------------------------------------------------------------ environment
    _rule("missing-module", r"ModuleNotFoundError|No module named '", ""),
    _rule("broken-import", r"^ImportError|cannot open shared object file|undefined symbol|cannot import name",
          "the engine's environment does not fit together: install the versions that this SGLang pins, into the same Python"),
    _rule("driver", r"driver version is insufficient|Driver/library version mismatch|CUDA driver initialization failed|CUDA initialization: (?:The NVIDIA|CUDA)",
          "the NVIDIA driver does not fit: compare `nvidia-smi` with the CUDA version of torch, reload the driver or reboot"),
    _rule("no-gpu", r"No CUDA GPUs are available|invalid device ordinal|no NVIDIA driver|Found no NVIDIA driver|device count|device_count",
          "fewer GPUs are visible than --tp asks for: see `nvidia-smi -L` and CUDA_VISIBLE_DEVICES"),
    _rule("gpu-unsupported", r"no kernel image is available|requires? (?:device with )?(?:compute )?capability|not compiled with .*sm_|SM\d+ (?:is )?required",
          "a kernel does not exist for this GPU: choose another --attention-backend, or a build for this GPU"),
    _rule("gpu-lost", r"uncorrectable ECC|GPU is lost|fallen off the bus|device-side assert|unspecified launch failure|illegal memory access|misaligned address"
          r"|CUDA error: |CUBLAS_STATUS|CUDNN_STATUS",
          "a GPU failed while computing: look for Xid lines in `dmesg` and at the ECC counters; CUDA_LAUNCH_BLOCKING=1 names the kernel"),
    _rule("files-open", r"Too many open files", "raise the limit of open files (ulimit -n 65535) before the launch"),
    _rule("jit", r"Error building extension|ninja: build stopped|Ninja is required|nvcc.*(?:not found|No such file)|CUDA_HOME environment variable is not set",
          "a kernel could not be compiled: CUDA toolkit (nvcc), ninja and a writable cache folder are needed"),
    # ------------------------------------------------------------------------------------ ports
    _rule("port-taken", r"\[Errno 98\]|[Aa]ddress already in use|EADDRINUSE|is used by a process already|[Pp]ort \d+ is (?:already )?(?:in use|not available)"
          r"|port at \d+ is not available", ""),
    # ------------------------------------------------------------------------------------ collective communication, hangs
    _rule("nccl-timeout", r"Watchdog caught collective operation timeout|Collective operation timeout",
          "one rank did not come to a collective: look at the rank that is missing, NCCL_DEBUG=INFO names the link; --dist-timeout lengthens the wait"),
    _rule("peer-gone", r"remote process exited|ncclRemoteError|Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|^EOFError|gloo/transport|TCPStore"
          r"|Initialization failed\. Please see the error messages above|store->get|recvValue failed",
          "another rank ended first; its own log says why", follower=True),
    _rule("nccl", r"NCCL error|NCCL WARN|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|DistBackendError",
          "NCCL failed: start with NCCL_DEBUG=INFO; on PCIe boxes without peer access try NCCL_P2P_DISABLE=1; look at /dev/shm and IOMMU/ACS settings"),
    _rule("hang", r"[Ww]atchdog timeout|py-spy dump", "the scheduler made no step for --watchdog-timeout seconds: the py-spy dump above it shows where it stands"),
    _rule("warmup-failed", r"Initialization failed\. warmup error|warmup error", "the first request failed: its error stands in the log above"),
    # ------------------------------------------------------------------------------------ the end of a process
    _rule("killed", r"exit(?:ed with| )code:? \(?-9\b", "killed from outside: the kernel's out-of-memory killer (see `dmesg`) or somebody's kill -9"),
    _rule("terminated", r"exit(?:ed with| )code:? \(?-15\b", "somebody sent SIGTERM to that process", follower=True),
    _rule("crashed", r"exit(?:ed with| )code:? \(?-(?:11|6|7|4)\b|Segmentation fault|Fatal Python error|terminate called after throwing|core dumped",
          "the process crashed in native code: a kernel or driver fault; the core dump and `dmesg` name it"),
    _rule("child-failed", r"crashed with exit code|died during initialization|sigquit from a child|SIGQUIT received",
          "a child process failed without saying why: look further up in the log, and at `dmesg`", follower=True),
)  # fmt: skip

ARGUMENT_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"ambiguous option: (--cuda-graph-max-bs|--cuda-graph-bs)\b"),
     "since 0.5.20 SGLang wants it per phase: write --cuda-graph-max-bs-decode"),
    (re.compile(r"unrecognized arguments: (?P<argument>--?[\w-]+)"),
     "this version of SGLang does not know {argument}: see `python -m sglang.launch_server --help`"),
    (re.compile(r"ambiguous option: (?P<argument>\S+)"), "{argument} is short for several options of this version: write it out"),
    (re.compile(r"arguments are required: (?P<argument>\S+)"), "give {argument}"),
    (re.compile(r"argument (?P<argument>[^:]+): "), "correct the value of {argument}"),
)  # fmt: skip

OOM_ADVICE = {
    "weights": "the weights do not fit: free the GPUs (`nvidia-smi`), use more of them (--tp), or a quantised checkpoint",
    "kv-pool": "the KV pool leaves too little: lower --mem-fraction-static{now}",
    "graph": "lower in this order: --mem-fraction-static{now}, --cuda-graph-max-bs-decode, draft tokens, --max-running-requests",
    "draft-graph": "the drafter's graphs did not fit: lower in this order --mem-fraction-static{now}, --cuda-graph-max-bs-decode, the number of"
    " candidate depths, draft tokens, --max-running-requests",
    "serving": "lower --mem-fraction-static{now}, --chunked-prefill-size or --max-running-requests",
}
