"""What nsys and its importer print of files that they cannot open, as one reason."""

import pytest

from gpuprof.readers.nsys.nsys_tool import reason

# Printed by QdstrmImporter 2023.4.4 for streams with some bytes changed.
SECTIONS = """\
Import Failed with unexpected exception: /build/StreamWithSections.cpp(324): Throw in function \
void QuadDCommon::StreamSectionsManager::parseSectionTable()
Dynamic exception type: boost::wrapexcept<QuadDCommon::ProtobufParseException>
std::exception::what: ProtobufParseException
[QuadDCommon::tag_message*] = Failed to read section table.
[QuadDCommon::tag_report_file_name*] = "/tmp/z.qdstrm"
[boost::errinfo_api_function_*] = parseSectionTable()


"""
EVENTS = """\
[libprotobuf ERROR /build/message_lite.cc:133] Can't parse message of type "Event" because it is \
missing required fields: Type

**** Analysis failed with:
Status: TargetProfilingFailed
Props {
  Items {
    Type: DeviceId
    Value: "Local (CLI)"
  }
}
Error {
  Type: RuntimeError
  SubError {
    Type: ProcessEventsError
    Props {
      Items {
        Type: ErrorText
        Value: "/build/ProtobufUtils.cpp(73): Throw in function void ReadMessage()\\nDynamic \
exception type: boost::wrapexcept<ProtobufParseException>\\nstd::exception::what: \
ProtobufParseException\\n"
      }
    }
  }
}


**** Errors occurred while processing the raw events. ****
**** Please see the Diagnostics Summary page after opening the report file in GUI. ****
\rProcessing [0%                  ]\rProcessing [===10%           ]\rProcessing [======100%]
Saved report file to "/tmp/z.nsys-rep"
"""
# As reported at github.com/NVIDIA/JAX-Toolbox, pull request 545 (nsys 2024.1.1), shortened.
ORDER = """\
[1/1] [====28%                     ] report7.nsys-rep
Importer error status: Importation failed.
Import Failed with unexpected exception: /build/main.cpp(34): Throw in function Importer()
Dynamic exception type: boost::wrapexcept<QuadDCommon::RuntimeException>
std::exception::what: RuntimeException
[QuadDCommon::tag_message*] = Status: AnalysisFailed
Error {
  Type: RuntimeError
  SubError {
    Type: InvalidArgument
    Props {
      Items {
        Type: ErrorText
        Value: "Wrong event order has been detected when adding events to the collection:\\nnew"
      }
    }
  }
}
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param("", "exit status 3", id="nothing"),
        pytest.param("\rProcessing [0%    ]\rProcessing [==7%  ]\n", "exit status 3", id="bar"),
        pytest.param(
            "\n\rProcessing [0%    ]\nFile is corrupted.\n", "File is corrupted.", id="after-a-bar"
        ),
        pytest.param(
            "Exportation error: Invalid version prefix: SQLite format 3\nUsage: ...\n",
            "Exportation error: Invalid version prefix: SQLite format 3",
            id="first-line",
        ),
        pytest.param(
            SECTIONS,
            "Import Failed with unexpected exception: Failed to read section table.",
            id="message",
        ),
        pytest.param(
            SECTIONS.replace("tag_message", "tag_other"),
            "Import Failed with unexpected exception: ProtobufParseException",
            id="exception",
        ),
        pytest.param(EVENTS, "Analysis failed with: ProtobufParseException", id="analysis"),
        pytest.param(
            ORDER,
            "Importer error status: Importation failed: Wrong event order has been detected when "
            "adding events to the collection",
            id="error-text",
        ),
    ],
)
def test_the_reason_is_the_tools_own_in_one_line(output, expected):
    assert reason(output, 3) == expected
