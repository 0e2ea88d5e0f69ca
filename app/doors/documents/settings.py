"""Documents of a service: its settings in force."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SettingOut(BaseModel):
    """One setting in force."""

    model_config = ConfigDict(from_attributes=True)

    variable: str = Field(description="Its variable, `POSTBAYES_…`.")
    value: str | None = Field(
        description="What it is, as text; null: unset. Secrets are `(hidden)`."
    )
    default: str | None = Field(
        description="What it is where nobody sets it; null: unset."
    )
    description: str = Field(description="What it does.")


class SettingsOut(BaseModel):
    """What a service is made of."""

    model_config = ConfigDict(from_attributes=True)

    version: str = Field(description="Of Postbayes.")
    database: str = Field(description="`sqlite` or `postgresql`.")
    database_url: str = Field(description="Where it is, without its password.")
    workers: int = Field(description="Processes of the service.")
    profiles: int = Field(description="Profiles of the database.")
    memory_bytes: int = Field(
        description="What the counts of the profiles in memory take in the process "
        "that answers."
    )
    settings: list[SettingOut] = Field(description="All settings.")
