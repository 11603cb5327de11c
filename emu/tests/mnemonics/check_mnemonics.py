#!/usr/bin/env python3
"""Compiles kernels for every chip and checks that the emulator knows each instruction in them.

The kernels: one for each function of the device libraries (ocml, ockl), and those of arithmetic.hip. Compiled code is
kept in --folder and used again. Ends with 77 (skipped) where clang 19 or the device libraries are not installed.
"""
import argparse
import concurrent.futures
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

CHIPS = {"gfx90a": "9010", "gfx942": "9402", "gfx1030": "10300", "gfx1100": "11000", "gfx1201": "12001"}
TYPES = {"half": "_Float16", "float": "float", "double": "double", "i8": "char", "i16": "short", "i32": "int",
         "i64": "long", "i1": "bool"}
# They need what a kernel of a test has not got, such as images, a second grid or a host that answers.
# The native functions of f64 exist for a few names only, and no chip has instructions for the others.
LEFT_OUT = re.compile(r"image|sampler|sanitizer|devmem|grid|__ockl_dm_|gws|hsa_|call_host|atomic_add_noret|"
                      r"native_\w+_f64")
# Choose between instructions by the chip, which at -O0 leaves those in that the chip has not got.
OPTIMIZED_ONLY = re.compile(r"__ockl_w[fg]")
# All that they need of HIP's headers, which would take half the time of compiling them.
ATTRIBUTES = "".join(f"#define __{name}__ __attribute__(({name}))\n" for name in ["global", "device", "shared"])
SKIPPED = 77


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def find_libraries():
    for folder in ["/usr/lib/*/amdgcn/bitcode", "/usr/lib/amdgcn/bitcode", "/opt/rocm/amdgcn/bitcode"]:
        for found in pathlib.Path("/").glob(folder[1:] + "/ocml.bc"):
            return found.parent
    return None


def libraries_with_all_chips(source, folder, assembler):
    """A copy of the device libraries' folder that has the file of each chip's version too."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*.bc"):
        link = folder / file.name
        if not link.exists():
            link.symlink_to(file)
    for chip, version in CHIPS.items():
        file = folder / f"oclc_isa_version_{chip[3:]}.bc"
        if file.exists():
            continue
        text = ("@__oclc_ISA_version = linkonce_odr protected local_unnamed_addr addrspace(4) constant i32 " + version +
                "\n")
        subprocess.run([assembler, "-o", file], input=text.encode(), check=True)
    return folder


def c_type(text):
    """The C++ spelling of a type of LLVM IR, or None."""
    text = text.strip()
    if text.startswith("<"):
        count, element = re.match(r"<(\d+) x (\w+)>", text).groups()
        return f"{TYPES[element]} __attribute__((ext_vector_type({count})))" if element in TYPES else None
    if text.startswith("ptr"):
        space = re.search(r"addrspace\((\d+)\)", text)
        return f"__attribute__((address_space({space.group(1)}))) void*" if space else "void*"
    word = text.split()[0]
    return TYPES.get(word)


def split_arguments(text):
    parts, depth, part = [], 0, ""
    for character in text:
        depth += (character in "(<[") - (character in ")>]")
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return parts + [part] if part.strip() else parts


def kernels_for_library(library, disassembler):
    """A kernel per function: its arguments come from memory and its result goes there."""
    text = subprocess.run([disassembler, library, "-o", "-"], capture_output=True, check=True).stdout.decode()
    source = []
    for match in re.finditer(r"^define [^@]*?((?:<[^>]*>)|\w+) @(__oc[mk]l_\w+)\((.*?)\) ?[^)]*\{$", text, re.M):
        result, name, arguments = match.groups()
        if LEFT_OUT.search(name) or name.startswith("__ocmlpriv"):
            continue
        types = [c_type(re.sub(r"%\w+$", "", a)) for a in split_arguments(arguments)]
        result = "void" if result == "void" else c_type(result)
        if result is None or None in types:
            continue
        number = len(source)
        lines = [f"using r{number} = {result};"]
        lines += [f"using t{number}_{k} = {type_};" for k, type_ in enumerate(types)]
        lines.append(f'extern "C" __device__ r{number} {name}(' + ", ".join(f"t{number}_{k}" for k in range(len(types))) +
                     ");")
        parameters = [f"t{number}_{k}* a{k}" for k in range(len(types)) if "*" not in types[k]]
        if result != "void":
            parameters.append(f"r{number}* out")
        values = []
        body = "  int i = __builtin_amdgcn_workitem_id_x();\n"
        for k, type_ in enumerate(types):
            if "address_space(5)" in type_:
                body += f"  double p{k}[2];\n"
                values.append(f"(t{number}_{k})&p{k}[0]")
            elif "address_space(3)" in type_:
                body += f"  __shared__ double p{k}[64];\n"
                values.append(f"(t{number}_{k})&p{k}[0]")
            elif "*" in type_:
                parameters.append(f"char* a{k}")
                values.append(f"(t{number}_{k})a{k}")
            else:
                values.append(f"a{k}[i]")
        call = f"{name}({', '.join(values)})"
        body += f"  out[i] = {call};\n" if result != "void" else f"  {call};\n"
        lines.append(f"__global__ void k{number}({', '.join(parameters)}) {{\n{body}}}")
        source.append((name, "\n".join(lines)))
    return source


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decoder", required=True, help="the program made of decode_all.cpp")
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--chips", default=",".join(CHIPS))
    parser.add_argument("--levels", default="0,3")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()

    clang = shutil.which("clang++-19")
    assembler, disassembler = shutil.which("llvm-as-19"), shutil.which("llvm-dis-19")
    libraries = find_libraries()
    if not clang or not assembler or not disassembler:
        skip("clang 19 and LLVM 19's tools are needed")
    if not libraries:
        skip("the device libraries (rocm-device-libs) are needed")
    options.folder.mkdir(parents=True, exist_ok=True)
    libraries = libraries_with_all_chips(libraries, options.folder / "bitcode", assembler)

    sources = {}
    for library in ["ocml", "ockl"]:
        kernels = kernels_for_library(libraries / (library + ".bc"), disassembler)
        if len(kernels) < 50:
            print(f"only {len(kernels)} functions found in {library}.bc: its IR has a form not understood")
            return 2
        groups = {"": [text for name, text in kernels if not OPTIMIZED_ONLY.search(name)],
                  "_optimized": [text for name, text in kernels if OPTIMIZED_ONLY.search(name)]}
        for group, texts in groups.items():
            for part in range(0, len(texts), 130):
                sources[f"{library}{group}{part // 130}"] = ATTRIBUTES + "\n".join(texts[part:part + 130]) + "\n"
    sources["arithmetic"] = (pathlib.Path(__file__).parent / "arithmetic.hip").read_text()

    def compile_one(job):
        name, chip, level = job
        key = hashlib.sha256((sources[name] + chip + level).encode()).hexdigest()[:16]
        output = options.folder / f"{name}-{chip}-O{level}-{key}.co"
        if output.exists():
            return output, None
        source = options.folder / f"{name}.hip"
        part = output.with_suffix(".part")
        command = [clang, "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", f"--offload-arch={chip}",
                   "--rocm-path=/usr", f"--rocm-device-lib-path={libraries}", f"-O{level}", "-w", "-std=c++17",
                   "-mcode-object-version=5", str(source), "-o", str(part)]
        if sources[name].startswith(ATTRIBUTES):
            command.insert(1, "-nogpuinc")
        run = subprocess.run(command, capture_output=True)
        if run.returncode != 0:
            return output, f"{name} for {chip} at -O{level}:\n" + run.stderr.decode()[-3000:]
        part.rename(output)
        return output, None

    for name, text in sources.items():
        (options.folder / f"{name}.hip").write_text(text)
    jobs = [(name, chip, level) for chip in options.chips.split(",") for level in options.levels.split(",")
            for name in sources if level != "0" or "optimized" not in name]
    failed = False
    outputs = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for output, problem in pool.map(compile_one, jobs):
            if problem:
                failed = True
                print("cannot compile", problem)
            else:
                outputs.append(str(output))
    result = subprocess.run([options.decoder] + outputs)
    return 2 if failed else result.returncode


sys.exit(main())
