#!/bin/sh
# Prints what every kernel takes on sm_90a: name, registers, shared bytes,
# bytes spilled. `kernels/resources.txt` holds the budget: the same lines.
# Usage: kernels/resources.sh [NVCC] | diff kernels/resources.txt -
set -eu
cd "$(dirname "$0")"
for kernel in *.cu; do
    "${1:-nvcc}" -O3 -std=c++17 --fmad=false -cubin -gencode=arch=compute_90a,code=sm_90a -Xptxas -v -o /dev/null "$kernel" 2>&1
done | awk '
    /Compiling entry function/ { split($0, quoted, "\047"); name = quoted[2] }
    /spill stores/ { for (i = 1; i <= NF; i++) if ($(i + 1) == "bytes" && $(i + 2) == "spill") spilled += $i }
    /Used .* registers/ {
        shared = 0
        for (i = 1; i <= NF; i++) {
            if ($(i + 1) ~ /^registers/) registers = $i
            if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
        }
        print name, registers, shared, spilled + 0
        spilled = 0
    }' | sort
