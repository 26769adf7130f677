"""What the members of objects are made of."""

from typing import Annotated

from pydantic import ConfigDict, Field, with_config

#: Of a class whose members are described by the text below them.
documented = with_config(ConfigDict(use_attribute_docstrings=True))

Wei = Annotated[str, Field(pattern=r"^[0-9]+$")]
Rate = Annotated[str, Field(pattern=r"^[0-9]+$")]  # in WAD: 10¹⁸ is 1
Count = Annotated[str, Field(pattern=r"^[0-9]+$")]  # of the contract, as wide as it likes
Block = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Hash = Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$")]
Data = Annotated[str, Field(pattern=r"^0x[0-9a-f]*$")]
Address = Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{40}$")]
