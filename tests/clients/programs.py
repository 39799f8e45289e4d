"""The programs of programs.tsv out of a folder of git repositories: each at its version, in a folder of its own, with the name and version that
importlib.metadata asks for. Nothing of them is built or installed."""
import collections
import pathlib
import subprocess
import tarfile
import tomllib

Program = collections.namedtuple('Program', 'name repository version folder needed')


class Missing(Exception):
    """A repository or a version that the folder does not hold; the message says how to get it."""


def read_programs():
    table = pathlib.Path(__file__).with_name('programs.tsv').read_text()
    return {row[0]: Program(*row) for row in (line.split('\t') for line in table.splitlines()) if row[0][:1] not in ('', '#')}


def git(repository, *words, **options):
    return subprocess.run(['git', '--git-dir', repository, *words], capture_output=True, **options)


def find_repository(folder, program):
    """A clone or a mirror, called NAME, NAME.git or OWNER+NAME."""
    wanted = program.repository.split('/')[1].lower()
    for place in sorted(pathlib.Path(folder).iterdir()):
        if place.name.lower().removesuffix('.git').split('+')[-1] != wanted:
            continue
        for candidate in (place / '.git', place / 'repo', place):
            if git(candidate, 'rev-parse', '--verify', program.version + '^{commit}').returncode == 0:
                return candidate
    raise Missing(f'{program.repository} at {program.version} is not in {folder}: git clone --bare https://github.com/{program.repository} '
                  f'{folder}/{program.repository.split("/")[1]}.git')


def unpack(folder, program, into):
    """The program's folder under `into`, which is made once."""
    place = pathlib.Path(into) / f'{program.name}@{program.version}'
    if (place / 'complete').exists():
        return place
    repository = find_repository(folder, program)
    place.mkdir(parents=True, exist_ok=True)
    archive = subprocess.Popen(['git', '--git-dir', repository, 'archive', program.version, *program.needed.split()], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=archive.stdout, mode='r|') as members:
        members.extractall(place, filter='tar')
    if archive.wait() != 0:
        raise Missing(f'git archive {program.version} failed in {repository}')
    write_metadata(place / program.folder, package_name(repository, program), program.version.removeprefix('v'))
    (place / 'complete').touch()
    return place


def package_name(repository, program):
    """As pyproject.toml has it, where there is one that says it; else the repository's."""
    project = git(repository, 'show', f'{program.version}:pyproject.toml', text=True)
    try:
        return tomllib.loads(project.stdout)['project']['name']
    except (KeyError, tomllib.TOMLDecodeError):
        return program.repository.split('/')[1]


def write_metadata(folder, name, version):
    """What importlib.metadata finds of an installed package. A commit stands for the version after all released ones."""
    if '.' not in version:
        version = '999.0+' + version
    place = pathlib.Path(folder) / f'{name.replace("-", "_").lower()}-{version}.dist-info'
    place.mkdir(parents=True, exist_ok=True)
    (place / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n')
