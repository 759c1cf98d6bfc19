"""What a kWh of each fuel emits: the stated factors behind intensities that are worked out from generation.

Lifecycle (gCO2eq/kWh): medians of IPCC AR5 WG3 Annex III (2014), Table A.III.2, which also counts building the
plant, its fuel supply and methane. Direct (gCO2/kWh): combustion only; nuclear and renewables 0, biomass 0
because its CO2 is counted where it grew (IPCC convention), coal and gas the AR5 medians of the same table.
AR5 tells no oil, lignite, peat, shale, coal gas or waste. Their direct factor is
    kg CO2/GJ (IPCC 2006 Guidelines, Vol. 2, Table 2.2) x 3.6 / net efficiency (ours, stated in `FACTORS`),
and their lifecycle factor adds what AR5 adds to hard coal between combustion and lifecycle (60 g/kWh); oil has
the median of IPCC SRREN (2011), Annex II, 840. Nobody's plant is average: such figures are `calibrated`, never
`measured`, and other sources' factors differ by tens of percent.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

BASES = ("lifecycle", "direct")
CITATION = "IPCC AR5 WG3 Annex III, IPCC 2006"
_COAL_UPSTREAM = 60  # AR5: 820 lifecycle - 760 direct


@dataclass(frozen=True)
class Fuel:
    """Factors in g/kWh of net generation."""

    name: str
    lifecycle_g_per_kwh: Decimal
    direct_g_per_kwh: Decimal
    origin: str

    def factor(self, basis: str) -> Decimal:
        return self.lifecycle_g_per_kwh if basis == "lifecycle" else self.direct_g_per_kwh


def _ar5(name: str, lifecycle: int, direct: int = 0) -> Fuel:
    return Fuel(name, Decimal(lifecycle), Decimal(direct), "IPCC AR5 WG3 Annex III, Table A.III.2, median")


def _burned(
    name: str, kg_per_gj: str, efficiency: str, *, lifecycle: int | None = None, fossil_share: str = "1"
) -> Fuel:
    direct = round(Decimal(kg_per_gj) * Decimal(fossil_share) * Decimal("3.6") / Decimal(efficiency))
    total = Decimal(lifecycle) if lifecycle is not None else Decimal(direct + _COAL_UPSTREAM)
    origin = f"IPCC 2006, {kg_per_gj} kg/GJ at {efficiency} net efficiency"
    origin += "" if fossil_share == "1" else f", {fossil_share} of it fossil"
    return Fuel(name, total, Decimal(direct), origin if lifecycle is None else f"{origin}; lifecycle IPCC SRREN 2011")


FACTORS = {
    fuel.name: fuel
    for fuel in (
        _ar5("hard coal", 820, 760),
        _ar5("natural gas", 490, 370),
        _ar5("nuclear", 12),
        _ar5("hydro", 24),
        _ar5("wind onshore", 11),
        _ar5("wind offshore", 12),
        _ar5("solar", 48),
        _ar5("geothermal", 38),
        _ar5("marine", 17),
        _ar5("biomass", 230),
        _burned("lignite", "101.0", "0.38"),
        _burned("peat", "106.0", "0.38"),
        _burned("oil shale", "107.0", "0.36"),
        _burned("coal gas", "44.4", "0.38"),
        _burned("oil", "77.4", "0.38", lifecycle=840),
        _burned("waste", "91.7", "0.25", fossil_share="0.5"),
    )
}

STORAGE = "storage"  # what it gives back was generated, and counted, before
UNKNOWN = "unknown"  # no factor can be stated

# EIA-930 fueltype -> fuel. Coal stands for all ranks, solar and wind may have a battery behind their meter.
EIA = {
    "COL": "hard coal",
    "NG": "natural gas",
    "OIL": "oil",
    "NUC": "nuclear",
    "WAT": "hydro",
    "SUN": "solar",
    "SNB": "solar",
    "WND": "wind onshore",
    "WNB": "wind onshore",
    "GEO": "geothermal",
    "OTH": UNKNOWN,
    "UNK": UNKNOWN,
    "BAT": STORAGE,
    "PS": STORAGE,
    "OES": STORAGE,
    "UES": STORAGE,
}

# ENTSO-E psrType -> fuel
ENTSOE = {
    "B01": "biomass",
    "B02": "lignite",
    "B03": "coal gas",
    "B04": "natural gas",
    "B05": "hard coal",
    "B06": "oil",
    "B07": "oil shale",
    "B08": "peat",
    "B09": "geothermal",
    "B10": STORAGE,
    "B11": "hydro",
    "B12": "hydro",
    "B13": "marine",
    "B14": "nuclear",
    "B15": UNKNOWN,
    "B16": "solar",
    "B17": "waste",
    "B18": "wind offshore",
    "B19": "wind onshore",
    "B20": UNKNOWN,
    "B25": STORAGE,
}
