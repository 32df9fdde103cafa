# Gives every cluster of PostgreSQL's test framework a flash cache of its own.
#
# A file of settings that all clusters have in common (TEMP_CONFIG) cannot do that: a standby would name its
# primary's flash. So this wraps the framework's "start", and cold backups, which have the flash with them. It
# is loaded with PERL5OPT into the scripts of tests.
package EntresolTap;

use strict;
use warnings FATAL => 'all';
use File::Copy;

# prove, and programs in Perl that tests call, do not have the framework.
if ($0 =~ m{\bt/\d+\w*\.pl$})
{
	require PostgreSQL::Test::Cluster;
	my $start = \&PostgreSQL::Test::Cluster::start;
	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::start = sub {
		my ($node, @rest) = @_;
		name_flash($node);
		return $start->($node, @rest);
	};

	# pg_rewind has its source write what only the source's cache has; its role must be allowed to ask.
	my $psql = \&PostgreSQL::Test::Cluster::safe_psql;
	*PostgreSQL::Test::Cluster::safe_psql = sub {
		my ($node, $database, $sql, @rest) = @_;
		$sql .= ';GRANT EXECUTE ON FUNCTION pg_catalog.pg_backup_start(text, boolean) TO rewind_user;'
		  if $sql =~ /CREATE ROLE rewind_user/;
		return $psql->($node, $database, $sql, @rest);
	};

	# A copy of a crashed cluster's files is not the cluster: it needs its flash, too.
	my $copy = \&PostgreSQL::Test::Cluster::backup_fs_cold;
	*PostgreSQL::Test::Cluster::backup_fs_cold = sub {
		my ($node, $name) = @_;
		$copy->($node, $name);
		copy_flash($node->basedir . '/flash', $node->backup_dir . "/$name.flash");
	};
	my $init = \&PostgreSQL::Test::Cluster::init_from_backup;
	*PostgreSQL::Test::Cluster::init_from_backup = sub {
		my ($node, $root, $name, @rest) = @_;
		$init->($node, $root, $name, @rest);
		copy_flash($root->backup_dir . "/$name.flash", $node->basedir . '/flash');
		# Some scripts start a cluster without the framework.
		name_flash($node);
	};
}

sub copy_flash
{
	my ($from, $to) = @_;
	return if !-f $from;
	copy($from, $to) or die "$from cannot be copied: $!";
	return;
}

# The last lines of the configuration hold.
sub name_flash
{
	my ($node) = @_;
	my $flash = $node->basedir . '/flash';
	my $conf = PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postgresql.conf');

	my @named = $conf =~ /^entresol\.flash\s*=\s*'(.*)'/mg;
	return if @named && $named[-1] eq $flash;
	my @libraries = $conf =~ /^shared_preload_libraries\s*=\s*'?([^'\n]*)'?/mg;
	my @wanted = grep { !/^(entresol|hooktrace)?$/ } split /\s*,\s*/, ($libraries[-1] // '');
	# The oracles are over the hooks of the module before them.
	my $wanted = join ',', @wanted, 'entresol', 'hooktrace';
	# In write-back mode a copy of a running cluster's files without a backup_label is refused. 017_shm runs
	# single-user servers after crashes.
	my $mode = $0 =~ /042_low_level_backup|017_shm/ ? 'write-through' : 'write-back';
	my $settings = $ENV{ENTRESOL_TAP_SETTINGS} // '';
	$node->append_conf('postgresql.conf', qq{
${settings}shared_preload_libraries = '$wanted'
entresol.flash = '$flash'
entresol.size = 24MB
entresol.objects = 2048
entresol.mode = '$mode'
entresol.drain_at_shutdown = on
});
	return;
}

1;
