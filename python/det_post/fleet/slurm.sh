#!/bin/sh
# The units of a plan as an array. Not tested on a cluster.
#   python -m det_post.fleet /data/drives --config my.param.yaml --out /data/run-7 --plan-only
#   sbatch --array=0-99 slurm.sh /data/run-7      # 0 to the number of units less one
#   python -m det_post.fleet --out /data/run-7 --collect-only
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --requeue
exec python -m det_post.fleet.unit "$1"
