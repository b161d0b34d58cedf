"""How the rooms of cc/ are built, and files with the build's facts."""

load("@installed//:facts.bzl", "FACTS")

COPTS = ["-Wall", "-Wextra", "-fno-semantic-interposition"]

def lms_room(name, deps = [], tensorflow = False):
    """One room: all files of its folder. `deps` are what its README allows it to include."""
    native.cc_library(
        name = name,
        srcs = native.glob(["*.cc"]),
        hdrs = native.glob(["*.h"]),
        copts = COPTS,
        # Ops, kernels and the optimizer are registered when the library is loaded.
        alwayslink = True,
        visibility = ["//visibility:public"],
        deps = deps + ["//third_party:build_facts"] + (["@installed//:tensorflow"] if tensorflow else []),
    )

    native.cc_library(
        name = name + "_headers",
        hdrs = native.glob(["*.h"]),
        visibility = ["//visibility:public"],
        deps = [headers_of(dep) for dep in deps],
    )

def headers_of(room):
    """The target with no more than the headers of a room: what the Python module needs."""
    return room + ":" + room.split("/")[-1] + "_headers"

def lms_facts(name, template, out):
    """The template with the build's facts in the places of @NAME@, as CMake's configure_file has it."""
    expressions = " ".join(["-e 's|@%s@|%s|g'" % (key, FACTS[key]) for key in FACTS])
    native.genrule(
        name = name,
        srcs = [template],
        outs = [out],
        cmd = "sed %s $< > $@" % expressions,
    )
