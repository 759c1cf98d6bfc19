"""Small power payloads of the formats' own shapes."""

from __future__ import annotations

GPU_A = "GPU-265c9814-6156-355b-e589-ff2064894f16"
GPU_B = "GPU-0b54d6a4-1b2c-4f7d-9a51-3c1f7a2e9d10"

SMI_LOG = "timestamp, index, uuid, name, driver_version, power.draw [W], enforced.power.limit [W]\n" + "".join(
    f"2026/08/01 12:00:{tick:02d}.{tick * 7:03d}, {index}, {uuid}, NVIDIA L40S, 570.86.10, {watts + tick}.50 W, 350 W\n"
    for tick in range(24)
    for index, uuid, watts in ((0, GPU_A, 200), (1, GPU_B, 90))
)

DCGM_TEXT = f"""# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{GPU_A}",device="nvidia0",modelName="NVIDIA L40S",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.86.10"}} 212.75
DCGM_FI_DEV_POWER_USAGE{{gpu="1",UUID="{GPU_B}",device="nvidia1",modelName="NVIDIA L40S",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.86.10"}} 91.5
# HELP DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION Total energy consumption since boot (in mJ).
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="0",UUID="{GPU_A}",device="nvidia0",modelName="NVIDIA L40S",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.86.10"}} 126272101025
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="1",UUID="{GPU_B}",device="nvidia1",modelName="NVIDIA L40S",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.86.10"}} 98765432
"""  # noqa: E501

ZEUS_LOG = """start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy
1785585600.25,epoch 1,60.5,18150.25,17890.0
1785585601.0,step, one,2.125,640.5,610.25
1785585700.0,epoch 2,61.0,18000.0,17750.5
"""

_CODECARBON_HEADER = (
    "timestamp,project_name,run_id,experiment_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,"
    "cpu_energy,gpu_energy,ram_energy,energy_consumed,water_consumed,country_name,country_iso_code,region,"
    "cloud_provider,cloud_region,os,python_version,codecarbon_version,cpu_count,cpu_model,gpu_count,gpu_model,"
    "longitude,latitude,ram_total_size,tracking_mode,on_cloud,pue,wue"
)


def codecarbon_row(
    *,
    at: str = "2026-08-01T12:00:00",
    run_id: str = "run-1",
    duration: str = "3600.0",
    kg: str = "0.0437",
    cpu: str = "0.045",
    gpu: str = "0.44",
    ram: str = "0.015",
    total: str = "0.5",
    gpu_count: str = "2",
    gpu_model: str = "2 x NVIDIA A100-SXM4-80GB",
    mode: str = "machine",
    pue: str = "1.0",
) -> str:
    return (
        f"{at},bench,{run_id},5b0fa12a,{duration},{kg},1.2e-05,45.0,440.0,15.0,{cpu},{gpu},{ram},{total},0.0,Finland,"
        f"FIN,uusimaa,,,Linux-6.8,3.11.9,3.2.1,64,AMD EPYC 7763,{gpu_count},{gpu_model},24.9,60.1,503.5,{mode},N,{pue},"
        "0"
    )


def codecarbon(*rows: str) -> str:
    return "\n".join([_CODECARBON_HEADER, *(rows or (codecarbon_row(),))]) + "\n"


CODECARBON_V1 = """timestamp,experiment_id,project_name,duration,emissions,energy_consumed,country_name,country_iso_code
2020-03-23T09:26:11,68f53844,project_gamma,34,0.004,0.008,USA,USA
2020-03-24T15:26:11,9288b395,project_delta,16,0.001,0.003,Taiwan,TWN
"""

SOUND: dict[str, str] = {
    "nvidia-smi-csv": "".join(SMI_LOG.splitlines(keepends=True)[:9]),  # four ticks of both devices
    "dcgm": DCGM_TEXT,
    "zeus-csv": ZEUS_LOG,
    "codecarbon-csv": codecarbon(codecarbon_row(), codecarbon_row(at="2026-08-01T14:00:00", run_id="run-2")),
}
OPTIONS: dict[str, dict[str, str]] = {
    "nvidia-smi-csv": {"timezone": "UTC"},
    "codecarbon-csv": {"timezone": "Europe/Helsinki"},
}
